"""What a restore notes in the ledger."""

from __future__ import annotations

import pytest

from mainstay.errors import RestoreError
from mainstay.snapshot.since import Since
from mainstay.state.declaration import ValueState
from mainstay.testing.memory_store import MemoryStoreSettings
from tests.contract.conftest import OpenBackend

STATES = {"n": ValueState("long")}


@pytest.mark.parametrize("protocol", ["logged", "prepared", "versioned"])
def test_what_a_restore_applies_is_of_the_epoch_that_it_starts_from(protocol: str) -> None:
    settings = MemoryStoreSettings("adoption", protocol=protocol)
    server = settings.fresh()
    opening = OpenBackend(settings)
    old = opening(STATES, "long")
    epochs = []
    for number in (1, 2):
        old.at(1).n.update(number)
        cut = old.freeze()
        epochs.append(old.write(cut))
    server.ledger.clear()
    server.prepared.clear()
    opening.since = Since(old.epoch, 1)
    opening.reopen(STATES, epochs[1], "long")
    ((tables, rows),) = server.ledger.items()
    assert [row.epoch for row in rows] == [old.epoch, old.epoch]
    assert tables.lineage == "job-1"
    if protocol != "versioned":
        with pytest.raises(RestoreError, match=f"moved on to epoch {old.epoch},"):
            opening.reopen(STATES, epochs[0], "long")
