"""Submitting a program with ``spark-submit``, and what it must come to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mainstay
from tests.spark.submitted_program import ORDERS

PROGRAM = Path(__file__).with_name("submitted_program.py")
PATIENCE_S = 400.0
PAGE = Path(mainstay.__file__).parent / "serve" / "page" / "index.html"


def zipped(folder: Path) -> Path:
    """The whole package, as a user would zip it."""
    target = folder / "mainstay.zip"
    source = Path(mainstay.__file__).parent
    with zipfile.ZipFile(target, "w") as archive:
        for path in source.rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                archive.write(path, Path("mainstay") / path.relative_to(source))
    return target


def submitted(
    *arguments: str, environment: Mapping[str, str] | None = None, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run ``spark-submit`` to its end, outside of the checkout."""
    import pyspark

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    chosen = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(submit), *arguments],
        env={**given, **chosen, **(environment or {})},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


class Outcome:
    """What the submitted program has left in its folder."""

    def __init__(self, folder: Path) -> None:
        import pyarrow.dataset as ds

        self.said: dict[str, Any] = json.loads((folder / "said.json").read_text())
        self.rows = ds.dataset(folder / "totals", format="parquet").to_table().to_pylist()

    def check(self) -> None:
        """Every order counted once, and the page was served whole."""
        assert self.said["status"] == "finished"
        assert self.said["page"] == PAGE.read_text()
        assert Counter((row["customer"], row["total"]) for row in self.rows) == expected()

    def packages(self) -> set[str]:
        """Where workers have this package from."""
        return {row["ours"] for row in self.rows}

    def arrows(self) -> set[str]:
        """Where workers have Arrow from."""
        return {row["arrow"] for row in self.rows}


def expected() -> Counter[tuple[str, int]]:
    totals: Counter[str] = Counter()
    found: Counter[tuple[str, int]] = Counter()
    for customer, amount in ORDERS:
        totals[customer] += amount
        found[customer, totals[customer]] += 1
    return found
