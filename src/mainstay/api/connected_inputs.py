"""Connected inputs: any number of streams for one function, each under a name of its own.

::

    inputs = env.connect(orders=orders.key_by("id"), refunds=refunds.key_by("order"))
    inputs.process(Settle(), "id long, amount double")     # process_orders, process_refunds
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mainstay.api.checks import check_process
from mainstay.api.connecting import (
    Keys,
    added_operator,
    in_names_of,
    is_broadcast,
    not_keyed_alike,
)
from mainstay.api.functions import MultiProcess
from mainstay.api.graph import named
from mainstay.api.settings import Settings
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.runtime.operators.connected import ConnectedInput
from mainstay.spelling import did_you_mean, one_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mainstay.api.stream import Stream


@with_own_frames
class ConnectedInputs:
    """Named streams that feed one function: keyed alike or not at all, and some broadcast."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = dict(streams)
        self._keys = self._checked_keys()

    def _checked_keys(self) -> Keys:
        divided = {n: each for n, each in self._streams.items() if not is_broadcast(each)}
        if not divided:
            raise GraphError(
                f"connect(): all inputs ({one_of(list(self._streams))}) are broadcast, so that "
                "each subtask would emit the same rows. Leave broadcast() out for one of them."
            )
        keyed = [name for name, each in divided.items() if each.key is not None]
        if not keyed:
            return dict.fromkeys(self._streams)
        for name, stream in divided.items():
            if stream.key is None:
                raise not_keyed_alike(f"{name}= ({stream._where()})", f"{keyed[0]}=")
        first = divided[keyed[0]]
        return {name: self._key(first, each) for name, each in self._streams.items()}

    @staticmethod
    def _key(first: Stream, stream: Stream) -> Any:
        return None if stream.key is None else in_names_of(first, stream)

    def process(
        self,
        function: MultiProcess,
        schema: Any = None,
        *,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """A :class:`MultiProcess` function, with a method ``process_<name>`` for each input."""
        after = ", ".join(stream._where() for stream in self._streams.values())
        where = named(settings.get("uid"), "connect", after=after)
        self._check_function(function, where)
        return added_operator(
            self._streams,
            self._keys,
            function,
            schema,
            where,
            settings,
            queryable=queryable,
        )

    def _check_function(self, function: Any, where: str) -> None:
        inputs = [ConnectedInput(n, None, each._carried) for n, each in self._streams.items()]
        methods = tuple(each.method for each in inputs)
        if isinstance(function, MultiProcess):
            _check_no_others(function, methods, where)
        check_process(function, MultiProcess, methods, where, "Subclass MultiProcess.")


def _check_no_others(function: MultiProcess, methods: tuple[str, ...], where: str) -> None:
    """Refuse a method that no input would call: its name is probably misspelt."""
    for name in dir(type(function)):
        is_method = name.startswith("process_") and callable(getattr(type(function), name))
        if is_method and name not in methods:
            raise GraphError(
                f"{where}: class {type(function).__name__} has {name}, and no input of that name "
                f"calls it; its inputs call {one_of(list(methods))}."
                f"{did_you_mean(name, methods)} Call a method of your own otherwise, such as "
                f"_{name}."
            )


def checked_streams(streams: Mapping[str, Any]) -> dict[str, Stream]:
    """What was given to ``env.connect``: at least two streams of one environment."""
    from mainstay.api.stream import Stream

    if len(streams) < 2:
        raise GraphError(
            "connect() needs at least two streams, each with a name: "
            "env.connect(orders=orders, refunds=refunds)."
        )
    for name, stream in streams.items():
        if not isinstance(stream, Stream):
            raise GraphError(
                f"connect(): {name}= needs a stream, not {type(stream).__name__}. It comes from "
                "env.source(...) or from a method of another stream."
            )
    first = next(iter(streams.values()))
    for stream in streams.values():
        first._check_beside(stream, "connect")
    return dict(streams)
