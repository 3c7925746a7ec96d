"""Keyed state outside a row raises, in every callback that is not given one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import MainstayError
from mainstay.testing import rows, run

SCHEMA = "k string, n long"
VALUES = [(f"k{n % 5}", n) for n in range(200)]


class Counting(ms.KeyedProcess):
    count = ms.ValueState("long")

    def process(self, row: Any, context: Any) -> Any:
        self.count.update((self.count.get() or 0) + 1)
        return None


class OnComplete(Counting):
    def on_snapshot_complete(self, epoch: int) -> None:
        self.count.update(0)


class OnOpen(Counting):
    def open(self, context: Any) -> None:
        self.count.get()


class InBatch(ms.KeyedBatchProcess):
    count = ms.ValueState("long")

    def process(self, batch: Any, context: Any) -> Any:
        self.count.get()


class Paired(ms.CoKeyedProcess):
    count = ms.ValueState("long")

    def process_left(self, row: Any, context: Any) -> Any:
        self.count.update(1)

    def process_right(self, row: Any, context: Any) -> Any:
        self.count.update(1)

    def on_snapshot_complete(self, epoch: int) -> None:
        self.count.clear()


def built(function: Any) -> Any:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows(SCHEMA, VALUES), uid="in")
        keyed = stream.key_by("k")
        if isinstance(function, ms.KeyedBatchProcess):
            made = keyed.process_batches(function, schema=SCHEMA, uid="f")
        elif isinstance(function, ms.CoKeyedProcess):
            made = keyed.connect(stream.key_by("k")).process(function, schema=SCHEMA, uid="f")
        else:
            made = keyed.process(function, schema=SCHEMA, uid="f")
        made.sink(Memory(), uid="out")

    return build


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("function", [OnComplete(), OnOpen(), InBatch(), Paired()])
def test_keyed_state_where_there_is_no_row_is_an_error_that_says_so(
    function: Any, parallelism: int
) -> None:
    with pytest.raises(MainstayError, match="there is no key") as raised:
        run(built(function), parallelism=parallelism)
    assert "operator 'f'" in str(raised.value)


found: list[Any] = []


class Threaded(Counting):
    """Leaves a thread that looks at the state when the slice is over."""

    def process(self, row: Any, context: Any) -> Any:
        super().process(row, context)
        if row.n == 0:
            self.over = threading.Event()
            self.thread = threading.Thread(target=self._look)
            self.thread.start()
        return None

    def on_snapshot_complete(self, epoch: int) -> None:
        if hasattr(self, "over"):
            self.over.set()
            self.thread.join()

    def _look(self) -> None:
        self.over.wait()
        try:
            found.append(self.count.get())
        except MainstayError as error:
            found.append(str(error))


def test_keyed_state_in_a_thread_that_outlives_its_row_is_an_error_that_says_so() -> None:
    found.clear()
    run(built(Threaded()), parallelism=1)
    assert len(found) == 1
    assert "there is no key" in str(found[0])


class Left(ms.KeyedProcess):
    """Keeps a generator beyond its row, and goes on with it at the end."""

    count = ms.ValueState("long")

    def process(self, row: Any, context: Any) -> Any:
        self.count.update(row.n)
        self.generator = self._generate()
        return None

    def _generate(self) -> Any:
        yield self.count.get()

    def close(self) -> None:
        for use in (self.count.get, lambda: list(self.generator)):
            with pytest.raises(MainstayError) as raised:
                use()
            found.append(str(raised.value))


def test_keyed_state_in_close_and_in_a_generator_that_outlives_its_row_says_so() -> None:
    found.clear()
    run(built(Left()), parallelism=1)
    assert len(found) == 2
    assert all("there is no key" in each for each in found)
