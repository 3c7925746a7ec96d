"""The whole table: every kind of callback that an author can write."""

from __future__ import annotations

from tests.callbacks import connector_kinds, input_kinds, keyed_kinds, plain_kinds, processor_kinds
from tests.callbacks.kind import Kind

FUNCTIONS: tuple[Kind, ...] = (
    *plain_kinds.KINDS,
    *keyed_kinds.KINDS,
    *input_kinds.KINDS,
    *processor_kinds.KINDS,
)
CONNECTORS = connector_kinds.KINDS
KINDS = (*FUNCTIONS, *CONNECTORS)
BY_NAME = {kind.name: kind for kind in KINDS}
assert len(BY_NAME) == len(KINDS)
