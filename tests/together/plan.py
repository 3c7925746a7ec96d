"""What is done to the jobs and when: a function of the seed and the length, and of nothing else.

Whom an event meets is drawn from what there is when its moment comes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

FAULTS = {
    "kill worker": 6,
    "kill executor": 3,
    "kill driver": 3,
    "freeze worker": 4,
    "freeze driver": 3,
    "fill the disk": 2,
    "fill the local disk": 1,
    "storage read-only": 2,
    "stop postgres": 3,
    "stop kafka": 2,
    "freeze kafka": 1,
}
REQUESTS = {
    "rescale": 4,
    "savepoint": 3,
    "restart": 1,
    "restart from a savepoint": 1,
    "upgrade": 1,
    "upgrade from a savepoint": 1,
    "start a client": 2,
    "stop a client": 2,
}
LASTS_S = {
    "freeze worker": (2.0, 20.0),
    "freeze driver": (2.0, 20.0),
    "fill the disk": (2.0, 8.0),
    "fill the local disk": (2.0, 8.0),
    "storage read-only": (2.0, 8.0),
    "stop postgres": (1.0, 10.0),
    "stop kafka": (1.0, 6.0),
    "freeze kafka": (1.0, 8.0),
}
ALWAYS = ("upgrade", "upgrade from a savepoint", "restart from a savepoint")
"""Of these there is one at least in a run that is long enough for them."""
QUIET_S = 40.0
"""At the beginning, until the jobs run; and at the end, so that they come to rest."""
APART_S = (8.0, 30.0)


@dataclass(frozen=True, slots=True)
class Planned:
    """One event. ``whom`` picks the victim, ``job`` is the one that is asked or hit."""

    at_s: float
    kind: str
    job: str
    whom: float
    lasts_s: float


def plan(
    seed: int,
    length_s: float,
    apart_s: tuple[float, float] = APART_S,
    *,
    weights: Mapping[str, int] = FAULTS | REQUESTS,
    quiet_s: float = QUIET_S,
) -> list[Planned]:
    rng = random.Random(f"plan {seed}")
    moments: list[float] = []
    at_s = quiet_s / 2
    while (at_s := at_s + rng.uniform(*apart_s)) < length_s - quiet_s / 2:
        moments.append(at_s)
    kinds = rng.choices(list(weights), list(weights.values()), k=len(moments))
    if len(kinds) >= 4 * len(ALWAYS):
        places = rng.sample(range(len(kinds) // 6, len(kinds)), len(ALWAYS))
        for place, kind in zip(places, ALWAYS, strict=True):
            kinds[place] = kind
    return [_drawn(rng, moment, kind) for moment, kind in zip(moments, kinds, strict=True)]


def _drawn(rng: random.Random, at_s: float, kind: str) -> Planned:
    job = rng.choices(["orders", "accounts"], [2, 1])[0]
    lasts_s = rng.uniform(*LASTS_S.get(kind, (0.0, 0.0)))
    return Planned(round(at_s, 2), kind, job, rng.random(), round(lasts_s, 2))
