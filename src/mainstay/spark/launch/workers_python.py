"""The Python that Spark's workers run in, where it is one of this machine.

It must be the driver's version, have what workers import, and is started more quickly where it
finds this package by itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mainstay
from mainstay.errors import SparkSetupError
from mainstay.spark.launch.commands import asked

NEEDED = ("pyarrow", "numpy", "obstore", "cloudpickle", "zmq")
"""What workers import beside this package."""
_DESCRIBE = """
import sys, importlib.util as u
print(*sys.version_info[:2], *[m for m in {needed!r} if u.find_spec(m) is None])
"""


def check_same_python(python: str) -> None:
    """Refuse another Python for Spark's workers than the driver's, or one that lacks something."""
    if python == sys.executable:
        return
    remedy = f"Set PYSPARK_PYTHON={sys.executable} before the session is started."
    program = _DESCRIBE.format(needed=NEEDED)
    answer = asked([python, "-c", program]).split()
    own = [str(number) for number in sys.version_info[:2]]
    if answer[:2] != own:
        found = ".".join(answer[:2]) if len(answer) > 1 and answer[0].isdigit() else "unusable"
        raise SparkSetupError(
            f"this is Python {'.'.join(own)} and the workers' {python} is {found}. {remedy}"
        )
    if answer[2:]:
        raise SparkSetupError(f"the workers' {python} lacks {', '.join(answer[2:])}. {remedy}")


def imports_this_package(python: str) -> bool:
    """Whether an interpreter finds this very package by itself, before anyone sends it."""
    own = mainstay.__file__
    if not Path(own).is_file():
        # In an archive of spark-submit, which is on the path of the driver and of nobody else.
        return False
    program = "import importlib.util as u; found = u.find_spec('mainstay'); print(found.origin)"
    return asked([python, "-c", program]).split("\n")[0] == own
