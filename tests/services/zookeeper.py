"""A ZooKeeper for tests, out of the jars that PySpark brings: one server, or an ensemble of them.

::

    with ZooKeeperServers(3) as servers:
        servers.hosts                # "127.0.0.1:41000,127.0.0.1:41001,127.0.0.1:41002"
        servers.freeze(0, 1)         # two of three answer nobody
        servers.thaw(0, 1)
        servers.kill(0)
        servers.start(0)             # on the same data
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PATIENCE_S = 60.0
JARS = ("zookeeper-3*", "zookeeper-jute-*", "slf4j-api-*", "metrics-core-*", "snappy-java-*")
TICK_MS = 500
"""A session is at least two of these."""
LONGEST_SESSION_MS = 600_000


def why_not() -> str | None:
    """Why there cannot be a server here; None where there can."""
    try:
        import kazoo  # noqa: F401
    except ImportError:
        return "kazoo is not installed"
    if shutil.which("java") is None:
        return "there is no Java"
    return None if _classpath() else "PySpark, which brings the server's jars, is not installed"


def _classpath() -> str:
    try:
        import pyspark
    except ImportError:
        return ""
    jars = Path(pyspark.__file__).parent / "jars"
    return ":".join(str(path) for name in JARS for path in jars.glob(f"{name}.jar"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ZooKeeperServers:
    """Servers on ports of this machine until they are closed; the data goes with them."""

    def __init__(self, count: int = 1) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="zookeeper-"))
        self._ports = [[_free_port() for _ in range(3)] for _ in range(count)]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for number in range(count):
            self._configure(number)

    def __enter__(self) -> ZooKeeperServers:
        for number in range(len(self._ports)):
            self.start(number, is_awaited=False)
        for number in range(len(self._ports)):
            self._await(number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for number in list(self._processes):
            self.kill(number)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{client}" for client, _, _ in self._ports)

    def _configure(self, number: int) -> None:
        folder = self._folder / str(number)
        folder.mkdir()
        lines = {
            "dataDir": str(folder),
            "clientPort": str(self._ports[number][0]),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "tickTime": str(TICK_MS),
            "maxSessionTimeout": str(LONGEST_SESSION_MS),
            "4lw.commands.whitelist": "ruok,srvr",
        }
        if len(self._ports) > 1:
            lines |= {"initLimit": "20", "syncLimit": "4"}
            for other, (_, peer, vote) in enumerate(self._ports):
                lines[f"server.{other + 1}"] = f"127.0.0.1:{peer}:{vote}"
            (folder / "myid").write_text(str(number + 1))
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        (folder / "zoo.cfg").write_text(text)

    def start(self, number: int = 0, *, is_awaited: bool = True) -> None:
        package = "org.apache.zookeeper.server"
        is_one = len(self._ports) == 1
        main = f"{package}.ZooKeeperServerMain" if is_one else f"{package}.quorum.QuorumPeerMain"
        command = ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", _classpath(), main]
        folder = self._folder / str(number)
        with (folder / "output").open("ab") as output:
            self._processes[number] = subprocess.Popen(
                [*command, str(folder / "zoo.cfg")], stdout=output, stderr=output
            )
        if is_awaited:
            self._await(number)

    def _await(self, number: int) -> None:
        """Until it serves: in an ensemble that takes a majority."""
        until = time.monotonic() + PATIENCE_S
        while not self._serves(number):
            output = (self._folder / str(number) / "output").read_text(errors="replace")[-2000:]
            assert self._processes[number].poll() is None, f"ZooKeeper has ended: {output}"
            assert time.monotonic() < until, f"ZooKeeper does not serve: {output}"
            time.sleep(0.05)

    def _serves(self, number: int) -> bool:
        with contextlib.suppress(OSError), self._connect(number) as connection:
            connection.sendall(b"srvr")
            return b"Mode:" in connection.recv(4096)
        return False

    def _connect(self, number: int) -> Any:
        return socket.create_connection(("127.0.0.1", self._ports[number][0]), timeout=5.0)

    def kill(self, number: int = 0) -> None:
        process = self._processes.pop(number)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()

    def freeze(self, *numbers: int) -> None:
        for number in numbers:
            self._processes[number].send_signal(signal.SIGSTOP)

    def thaw(self, *numbers: int) -> None:
        for number in numbers:
            self._processes[number].send_signal(signal.SIGCONT)
