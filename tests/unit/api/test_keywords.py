"""A keyword that does not exist is refused with the one that was probably meant."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mainstay as ms
from mainstay import connectors, own_frames
from mainstay.api.connect import ConnectedStreams
from mainstay.connectors import Memory, Rows
from mainstay.drive.handle import JobHandle
from mainstay.errors import GraphError, KeywordError
from mainstay.testing import run

MADE_BY_THE_RUNTIME = {
    *("AttemptRecord", "EpochRecord", "FailureRecord", "Figures", "Problem", "Recovery"),
    "TaskMetrics",
    *("Answer", "Column", "Connection", "Job", "KeyedStream", "Moment", "Stream"),
    *("EpochStatus", "GroupedBatch", "Match", "ProcessContext", "RecordList", "Silent"),
}
NOT_MADE_BY_AUTHORS = {
    *("Delivery", "Order", "Polled", "SinkContext", "SinkRecovery", "Split", "TransactionId"),
    *("AggregateFunction", "UnavailableError"),
}


def has_own_init(cls: type) -> bool:
    made_by = next(base for base in cls.__mro__ if "__init__" in vars(base))
    return made_by is not object


def classes() -> Iterator[type]:
    for module in (ms, connectors):
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and has_own_init(value) and not inspect.isabstract(value):
                yield value


CLASSES = [
    each for each in classes() if each.__name__ not in MADE_BY_THE_RUNTIME | NOT_MADE_BY_AUTHORS
]


def test_the_classes_that_authors_make_are_looked_at() -> None:
    names = {each.__name__ for each in CLASSES}
    assert {"Environment", "Snapshots", "Restart", "RocksDB", "ReducingState", "Ttl"} <= names
    assert {"Files", "ParquetSink", "KafkaSource", "PostgresSink", "Webhook", "Json"} <= names


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_misspelt_keyword_of_a_constructor_is_named_with_those_it_takes(cls: type) -> None:
    parameters = [*inspect.signature(cls).parameters]
    misspelt = f"{parameters[-1]}z" if parameters else "sizze"
    with pytest.raises(KeywordError) as raised:
        cls(**{misspelt: 1})
    message = str(raised.value)
    assert message.startswith(f"{cls.__name__}() has no argument {misspelt!r}.")
    if parameters:
        assert f"Did you mean {parameters[-1]!r}?" in message
        assert all(name in message.partition("It takes ")[2] for name in parameters)


def takes_any(method: Any) -> bool:
    """Whether a method takes keywords of the author's own."""
    kinds = [each.kind for each in inspect.signature(method).parameters.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds


METHODS = [
    (cls, name)
    for cls in (ms.Environment, ms.Stream, ms.KeyedStream, ConnectedStreams, JobHandle)
    for name, method in vars(cls).items()
    if inspect.isfunction(method) and not name.startswith("_") and not takes_any(method)
]


@pytest.mark.parametrize(("cls", "name"), METHODS, ids=lambda value: str(value))
def test_so_is_one_of_a_method(cls: type, name: str) -> None:
    with pytest.raises(
        KeywordError, match=rf"{name}\(\) has no argument 'surely_none'\. It takes "
    ):
        getattr(cls, name)(object(), surely_none=1)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: ms.Environment().start("x", restore="latest"), "'restore'.*Environment"),
        (lambda: ms.Environment().start("x", restroe="latest"), "'restore'.*Environment"),
        (lambda: ms.Environment(every="1s"), "'every'.*Snapshots"),
        (lambda: ms.Snapshots("./s", max_failures=1), "'max_failures'.*Restart"),
    ],
)
def test_an_argument_of_another_place_is_named_with_that_place(
    call: Callable[[], Any], hint: str
) -> None:
    with pytest.raises(KeywordError, match=rf"{hint}\(\.\.\.\)"):
        call()


def test_it_is_a_type_error_as_python_s_own_and_one_of_the_program() -> None:
    with pytest.raises(TypeError):
        ms.Restart(max_failure=1)  # type: ignore[call-arg]
    with pytest.raises(GraphError):
        ms.Restart(max_failure=1)  # type: ignore[call-arg]


def wrong_calls() -> list[Callable[[], Any]]:
    return [
        lambda: ms.Environment(paralelism=2),  # type: ignore[call-arg]
        lambda: ms.Snapshots(),  # type: ignore[call-arg]
        lambda: ms.ReducingState("lnog", max),
        lambda: ms.Environment().source(Rows("a long", [(1,)]), uidd="in"),  # type: ignore[call-arg]
        lambda: run(lambda env: env.source(Rows("a long", [(1,)])).map(int, "a lnog"), sed=1),  # type: ignore[call-arg]
        lambda: run(
            lambda env: env.source(Rows("a long", [(1,)])).map(int, "a lnog").sink(Memory())
        ),
    ]


@pytest.mark.parametrize("number", range(6))
def test_a_wrong_call_shows_the_author_s_frames_alone(number: int) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011
        wrong_calls()[number]()
    frames = traceback.extract_tb(raised.value.__traceback__)
    shown = {frame.filename for frame in frames}
    if sys.version_info < (3, 11):
        shown.discard(own_frames.__file__)  # the one that raises cannot be left out there
    assert shown == {__file__}
    assert raised.value.__cause__ is None


def test_a_type_error_from_inside_a_call_is_left_as_it_is() -> None:
    def build(env: ms.Environment) -> None:
        raise TypeError("of the author")

    with pytest.raises(TypeError, match="of the author") as raised:
        run(build)
    assert not isinstance(raised.value, KeywordError)


def test_a_constructor_keeps_its_signature() -> None:
    assert next(iter(inspect.signature(ms.Restart).parameters)) == "max_failures"
    assert "uid" in inspect.signature(ms.Stream.key_by).parameters
