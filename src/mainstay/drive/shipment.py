"""A deployment as it is sent to workers: what all of them share, and the state of each.

What a subtask starts from is of no use to other workers, and there may be a thousand of them. So
the program is made into bytes once, and each worker gets its own part of the state beside it.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from dataclasses import replace

import cloudpickle

from mainstay.runtime.deployment import Deployment, InFlight, RestoredState
from mainstay.runtime.worker.replays import shares_of


class Shipment:
    """What the workers of one attempt are sent."""

    def __init__(self, deployment: Deployment) -> None:
        self.shared: bytes = cloudpickle.dumps(replace(deployment, restored={}))
        self._states: dict[int, dict[tuple[str, int], RestoredState]] = defaultdict(dict)
        shares = _shares(deployment)
        for (uid, subtask), state in deployment.restored.items():
            if uid in shares:
                state = replace(state, in_flight=shares[uid][subtask])
            # Subtask i of every operator runs on worker i.
            self._states[subtask][uid, subtask] = state

    def part(self, worker: int) -> bytes:
        """The state that a worker starts from."""
        return pickle.dumps(self._states.get(worker, {}))


def _shares(deployment: Deployment) -> dict[str, list[tuple[InFlight, ...]]]:
    """For each operator that takes in-flight rows, what its subtasks have to be sent of them."""
    job = deployment.job
    found = {uid: state.in_flight for (uid, _), state in deployment.restored.items()}
    return {
        operator.uid: shares_of(units, task.parallelism, job.key_groups(operator))
        for task, operator in job.operators()
        if (units := found.get(operator.uid))
    }


def unpacked(shared: bytes, part: bytes) -> Deployment:
    """The deployment of one worker, from what it was sent."""
    deployment: Deployment = pickle.loads(shared)
    return replace(deployment, restored=pickle.loads(part))
