"""The name of a setting: what is run, where its workers run, or both, as in ``process-spark``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mainstay.bench.running import PROCESSES, SPARK

PLACES = (SPARK, PROCESSES)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is left out is the first there is."""

    name: str
    variant: str
    place: str


def parse_setting(name: str, variants: Sequence[str]) -> Setting:
    """``spark``, ``process``, ``process-spark``, ``processes-process_batches`` and the like."""
    variant, place = variants[0], PLACES[0]
    for part in filter(None, name.split("-")):
        if part in PLACES:
            place = part
        elif part in variants:
            variant = part
        else:
            known = ", ".join([*variants, *PLACES])
            raise SystemExit(f"setting {name!r}: {part!r} is none of {known}.")
    return Setting(name or f"{variant}-{place}", variant, place)
