"""State that is written for keys of another subtask is refused, not lost."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import MainstayError
from mainstay.testing import rows, run


class Elsewhere(ms.KeyedBatchProcess):
    """Writes state for keys that are not in its batch."""

    total = ms.ValueState("long")

    def process(self, batch: Any, ctx: Any) -> Any:
        self.total.put_many(range(100), range(100))


def test_writing_state_of_keys_of_other_subtasks_ends_the_job_with_the_reason() -> None:
    def build(env: ms.Environment) -> None:
        source = env.source(rows("key long", [(n,) for n in range(10)]), uid="in")
        source.key_by("key").process_batches(Elsewhere(), "key long", uid="elsewhere").sink(
            ms.connectors.Memory(), uid="out"
        )

    with pytest.raises(MainstayError, match=r"elsewhere.*'total'.*keys that belong to other"):
        run(build, parallelism=2)
