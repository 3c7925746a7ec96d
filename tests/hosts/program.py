"""A program on four hosts of this machine, as root on Linux.

::

    python -m tests.hosts.program [--connect] COMMAND...

A master, two hosts for executors, and a host of its own for the command. In it ``{master}`` stands
for the master, with ``--connect`` for a Connect server beside it, and ``{folder}`` for a folder
that all hosts see. It is removed at the end, and so are the hosts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.services.connect_hosts import ConnectHosts
from tests.services.hosts import why_not
from tests.services.spark_hosts import DRIVER, SparkHosts


def run(cluster: SparkHosts, *command: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command on the driver's host; the programs are those beside this Python."""
    folder = cluster.folder / "shared"
    folder.mkdir(exist_ok=True)
    places = {"{master}": cluster.entry, "{folder}": str(folder)}
    words = [_replaced(word, places) for word in command]
    environment = cluster.environment(DRIVER)
    programs = str(Path(sys.executable).parent)
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    on_host = cluster.hosts.command(DRIVER, words)
    return subprocess.run(on_host, env=environment, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def _replaced(word: str, places: dict[str, str]) -> str:
    for name, value in places.items():
        word = word.replace(name, value)
    return word


def main(*command: str) -> int:
    if missing := why_not():
        sys.exit(f"no hosts: {missing}")
    is_connect = command[:1] == ("--connect",)
    with tempfile.TemporaryDirectory() as folder:
        # Executors are to see it whoever they run as.
        os.chmod(folder, 0o755)
        with (ConnectHosts if is_connect else SparkHosts)(Path(folder)) as cluster:
            return run(cluster, *command[is_connect:]).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if sys.argv[1:] else __doc__)
