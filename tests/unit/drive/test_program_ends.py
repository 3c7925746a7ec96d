"""A program that ends while its job runs."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading
from concurrent.futures import ThreadPoolExecutor

from mainstay.drive.job_thread import _ends_with_program

pool, refused = ThreadPoolExecutor(2), threading.Event()


def drive():
    while True:
        try:
            pool.submit(int).result()
        except RuntimeError as error:
            is_early = threading.main_thread().is_alive()
            refused.set()
            print(is_early, _ends_with_program(error))
            return


# The end of the program waits for this, so that the main thread is still there.
pool.submit(refused.wait)
threading.Thread(target=drive).start()
"""


def test_pools_that_take_no_more_work_are_the_end_of_the_program_and_no_crash() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("True True\n", "")
