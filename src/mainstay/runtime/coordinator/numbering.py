"""Uids that were not given: whether the state of a snapshot is still that of the same operator.

Such a uid is the number of an operator among those of its name. Where a program has more or fewer
of them than before, the same number may be another operator's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mainstay.errors import RestoreError
from mainstay.runtime.spec import JobSpec, OperatorSpec


def check_numbers(known: Iterable[str], holding: Iterable[str], job: JobSpec) -> None:
    """Refuse state that may belong to another operator.

    ``known`` are the uids of all operators of the snapshot, ``holding`` of those with state.
    """
    operators = [operator for _, operator in job.operators()]
    given = {operator.uid for operator in operators if operator.wiring is None}
    before, with_state = set(known) - given, set(holding)
    for operator in operators:
        if operator.wiring is None or operator.uid not in with_state:
            continue
        then = sorted(uid for uid in before if _is_numbered(uid, operator.name))
        now = sorted(each.uid for each in operators if _is_alike(each, operator))
        if then != now:
            raise RestoreError(
                f"operator {operator.uid!r} has no uid of its own, and the snapshot holds its "
                f"state. The snapshot has {then}, the job has {now}: which of them is which "
                f"cannot be told. Write uid={operator.uid!r} at the operator that had it, and uids "
                "of their own at the others."
            )


def _is_numbered(uid: str, name: str) -> bool:
    return re.fullmatch(rf"{re.escape(name)}-\d+", uid) is not None


def _is_alike(other: OperatorSpec, operator: OperatorSpec) -> bool:
    return other.wiring is not None and other.name == operator.name
