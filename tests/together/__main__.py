"""``python -m tests.together``: the soak, for ``MAINSTAY_TOGETHER_MINUTES`` (60).

``MAINSTAY_TOGETHER_SEED`` plays the plan of an earlier run again. ``MAINSTAY_TOGETHER_FOLDER`` is
where everything lies, and is kept. With ``MAINSTAY_TOGETHER_MASTER=processes`` there is no cluster,
and drivers start their workers themselves: no executor is killed then.

The exit code is 1 if anything was not as it must be.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.together.plan import plan
from tests.together.soak import Soak


def main() -> int:
    # In the background of a shell Ctrl-C is ignored, and services would be left behind by a kill.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("together").setLevel(logging.INFO)
    minutes = float(os.environ.get("MAINSTAY_TOGETHER_MINUTES", "60"))
    seed = int(os.environ.get("MAINSTAY_TOGETHER_SEED") or random.randrange(1_000_000))
    on_spark = os.environ.get("MAINSTAY_TOGETHER_MASTER") != "processes"
    given = os.environ.get("MAINSTAY_TOGETHER_FOLDER")
    folder = Path(given or tempfile.mkdtemp(prefix="together-"))
    print(f"seed {seed}, {minutes:g} minutes, in {folder}", flush=True)
    os.environ["MAINSTAY_REGISTRY"] = str(folder / "registry")
    is_good = False
    try:
        with ExitStack() as closing:
            report = Soak(folder, seed, closing, on_spark=on_spark).run(
                minutes, plan(seed, minutes * 60)
            )
            is_good = not report.differences
        print(report.text(), flush=True)
    finally:
        if is_good and not given:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
