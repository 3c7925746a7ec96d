"""Broadcast state as a function declares it: a map that every subtask holds in full.

::

    class Flag(CoKeyedProcess):
        limits = BroadcastMapState("string", "double")

        def process_right(self, rule, ctx):     # of the broadcast input
            self.limits.put(rule.country, rule.limit)

        def process_left(self, payment, ctx):
            if payment.amount > self.limits.get(payment.country, 1000):
                yield payment
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mainstay.own_frames import made_with_own_frames
from mainstay.state.declaration import MapDeclaration
from mainstay.state.info import StateInfo
from mainstay.state.kinds import BROADCAST_MAP
from mainstay.state.migration import Migration


@made_with_own_frames
class BroadcastMapState(MapDeclaration):
    """A map that every subtask holds in full, for functions with a broadcast input.

    Only the method of a broadcast input may change it. It must do the same in every subtask:
    by the row alone, not by ``ctx.subtask``, the clock or chance. All other methods read it. A
    rescale gives each new subtask a copy. The entries are copied when a snapshot is taken, and each
    subtask stores them: keep the map small. It is a dictionary as ``MapState`` is.
    """

    kind = BROADCAST_MAP
    keyed = False

    def __init__(
        self,
        key_type: Any = None,
        value_type: Any = None,
        *,
        migrate: Callable[[Any], Any] | Migration | None = None,
    ) -> None:
        super().__init__(value_type, migrate=migrate)
        self._keyed_by(key_type)

    def info(self) -> StateInfo:
        return replace(super().info(), redistribute="broadcast")
