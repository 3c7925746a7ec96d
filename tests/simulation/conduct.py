"""What no simulation may do, whatever its job comes to."""

from __future__ import annotations

from mainstay.snapshot.layout import slot_index
from mainstay.snapshot.slots import decode_slot
from mainstay.testing.simulation import Simulation
from tests.ha.histories import check_leaders


def check_refusals(simulation: Simulation, *, votes: bool = False) -> None:
    """Without faults of the storage, a request fails only where the job is over or halts.

    Where a database votes, the next attempt commits what the one before it has left in doubt: a
    savepoint that was being read from the tables then is refused.
    """
    over = ("the job is over", "another driver has taken over", "does not lead")
    away = "simulated: memory:seed-"
    reasons = (*over, "is being stopped or rescaled already", "holds in-flight rows", away)
    reasons += ("has moved on to epoch",) if votes else ()
    if not simulation.settings.storage_faults:
        for refusal in simulation.requests.refusals:
            assert any(reason in refusal for reason in reasons), simulation.story()


def check_leading(simulation: Simulation) -> None:
    """No leader did anything that only its successor may do."""
    assert not simulation.violations, f"{simulation.violations}\n{simulation.story()}"
    slots = simulation.witness.slots.items()
    records = [decode_slot(data, slot_index(path) or 0, path).record for path, data in slots]
    try:
        check_leaders(records)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{simulation.story()}") from error


def check_failures(simulation: Simulation) -> None:
    """Nobody saw what cannot be, not even an attempt that was restarted after it."""
    for failure in simulation.failures:
        error: BaseException | None = failure
        while error is not None:
            if isinstance(error, AssertionError):
                raise AssertionError(simulation.story()) from failure
            error = error.__cause__
