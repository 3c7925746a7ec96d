"""Expressions over rows that lie anywhere in memory."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from mainstay.schema.evaluation import evaluated

memory = pa.py_buffer(np.zeros(8 * 100 + 1, np.uint8))[1:]
numbers = pa.Array.from_buffers(pa.int64(), 100, [None, memory])
print(evaluated(pc.field("n") == 0, pa.table({"n": numbers})).true_count)
"""


def test_rows_as_a_message_has_them_are_no_reason_for_a_warning() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("100\n", "")
