"""Scouts: small tasks that are sent ahead of a job, and tell what its workers will find.

Each looks at the Python that it runs in and connects to this process, as workers will. It stays
until all have come, so that as many as there are run at the same time: there are slots for as many
workers. What they find is known in seconds, where workers would wait for each other in vain.
"""

from __future__ import annotations

import json
import secrets
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from mainstay.errors import SlotsError, SparkSetupError
from mainstay.spark.launch.spark_errors import summary
from mainstay.spark.launch.tasks import Main
from mainstay.spark.launch.workers_python import NEEDED
from mainstay.spelling import counted
from mainstay.transport.address import LOOPBACK

FIRST_S, NEXT_S = 120.0, 15.0
"""How long the first is waited for, and after each one that came the next."""
REACH_S = 5.0
"""How long a scout tries to reach this process."""
LATE_S = 10.0
"""How long scouts may take to return that come too late, or not at all."""
_STAY_S = 120.0
_LOOK_S = 0.1
_WELCOME = b"."


class Territory(Protocol):
    """As much of a cluster as scouts need."""

    @property
    def host(self) -> str: ...

    @property
    def workers_python(self) -> str | None:
        """The command by which tasks start Python; None where this process does not know it."""

    def run(
        self, main: Main, tasks: int, columns: str, tag: str, description: str
    ) -> list[Any]: ...

    def cancel(self, tag: str) -> None: ...


def send_scouts(cluster: Territory, count: int, way: str) -> None:
    """Refuse a cluster on which so many workers would not run; ``way`` says where its idea of the
    address of this process is from."""
    with _listening(cluster.host) as listener:
        expedition = _Expedition(cluster, count, listener)
        expedition.meet()
    expedition.judge(way)


@contextmanager
def _listening(host: str) -> Iterator[socket.socket]:
    """A socket that listens as the coordinator's does."""
    is_v6 = ":" in host
    everywhere = "::" if is_v6 else ""
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    bound = (host if host == LOOPBACK else everywhere, 0)
    with socket.create_server(bound, family=family, dualstack_ipv6=is_v6) as listener:
        listener.settimeout(_LOOK_S)
        yield listener


@dataclass
class _Expedition:
    """The scouts of one job, from their start to what they tell."""

    cluster: Territory
    count: int
    listener: socket.socket
    met: int = 0
    found: list[dict[str, Any]] = field(default_factory=list)
    failure: Exception | None = None

    def meet(self) -> None:
        """Send them, wait until all are there or no more come, and have them return."""
        tag = f"mainstay-scouts-{uuid.uuid4().hex}"
        token = secrets.token_hex(16).encode()
        self.address = (self.cluster.host, self.listener.getsockname()[1])
        running = threading.Thread(
            target=self._run, args=(tag, token), name="mainstay-scouts", daemon=True
        )
        running.start()
        with ExitStack() as closing:
            scouts = self._await(token, running, closing)
            self.met = len(scouts)
            for scout in scouts:
                scout.sendall(_WELCOME)
        if self.met < self.count:
            self._send_home(token, running)
            if running.is_alive():
                self.cluster.cancel(tag)
        running.join()

    def _run(self, tag: str, token: bytes) -> None:
        main = _main(self.address, token, NEEDED, REACH_S, _STAY_S)
        try:
            rows = self.cluster.run(main, self.count, "found string", tag, "mainstay: scouts")
            self.found = [json.loads(row.found) for row in rows]
        except Exception as error:
            self.failure = error

    def _await(
        self, token: bytes, running: threading.Thread, closing: ExitStack
    ) -> list[socket.socket]:
        scouts: list[socket.socket] = []
        until = time.monotonic() + FIRST_S
        while len(scouts) < self.count and running.is_alive() and time.monotonic() < until:
            scout = self._accept(token)
            if scout is not None:
                scouts.append(closing.enter_context(scout))
                until = time.monotonic() + NEXT_S
        return scouts

    def _send_home(self, token: bytes, running: threading.Thread) -> None:
        """Let those go that come now. Spark tells what scouts have found when all have returned,
        and some may not have come because they could not."""
        until = time.monotonic() + LATE_S
        while running.is_alive() and time.monotonic() < until:
            scout = self._accept(token)
            if scout is not None:
                with scout:
                    scout.sendall(_WELCOME)

    def _accept(self, token: bytes) -> socket.socket | None:
        """The next scout, known by its token."""
        try:
            scout, _ = self.listener.accept()
        except TimeoutError:
            return None
        scout.settimeout(REACH_S)
        try:
            is_known = scout.recv(len(token), socket.MSG_WAITALL) == token
        except OSError:
            is_known = False  # a stranger, who is gone
        if is_known:
            return scout
        scout.close()
        return None

    # ------------------------------------------------------------ what they found

    def judge(self, way: str) -> None:
        """Raise what speaks against the job, the nearest cause first."""
        for each in self.found:
            self._require_python(each)
            if each["problem"] is not None:
                self._refuse_address(each, way)
        if self.met == self.count:
            return
        if self.failure is not None and not _is_cancelled(self.failure):
            raise SparkSetupError(
                f"Spark cannot run Python tasks of this job: {self._reason(self.failure)}"
            ) from self.failure
        raise SlotsError(self._too_few())

    def _require_python(self, found: dict[str, Any]) -> None:
        own, theirs = list(sys.version_info[:2]), found["python"]
        where = f"the workers' Python, {found['executable']} on {found['host']},"
        if theirs != own:
            raise SparkSetupError(
                f"this is Python {_dotted(own)} and {where} is {_dotted(theirs)}. Set "
                "PYSPARK_PYTHON, or spark.pyspark.python, to one of the same version there."
            )
        if found["missing"]:
            raise SparkSetupError(
                f"{where} lacks {', '.join(found['missing'])}. Install mainstay there, or set "
                "PYSPARK_PYTHON, or spark.pyspark.python, to a Python that has it."
            )

    def _refuse_address(self, found: dict[str, Any], way: str) -> None:
        host, port = self.address
        raise SparkSetupError(
            f"executors cannot reach the coordinator, which runs in this process: from "
            f"{found['host']} ({found['address']}) to {host}:{port}: {found['problem']}. The "
            f"address is {way}. Say under which name or address executors reach this machine: "
            "Environment(coordinator_host=...), and let a firewall between them pass connections "
            "to it; or run this program where they can reach it, such as beside Spark's driver."
        )

    def _reason(self, failure: Exception) -> str:
        text = summary(str(failure)) or type(failure).__name__
        if "No module named" not in text:
            return text
        python = self.cluster.workers_python
        which = "" if python is None else f", which is {python!r} on the executors,"
        return (
            f"{text}. The workers' Python{which} lacks it. Set PYSPARK_PYTHON to one that has what "
            "mainstay needs, where Spark's driver is started: for Spark Connect that is the server."
        )

    def _too_few(self) -> str:
        if not self.met:
            return (
                f"no task of this job has answered within {FIRST_S:.0f} s: Spark has no executor, "
                "other jobs have all its slots, or Python is slower than that to start there. Add "
                "executors or cores, end other jobs, or start the job again when the machines "
                "have less to do."
            )
        were = "was" if self.met == 1 else "were"
        return (
            f"the job needs {counted(self.count, 'free slot')}, and {self.met} of its tasks {were} "
            f"seen to run at a time; no more answered within {NEXT_S:.0f} s. Lower the "
            "parallelism, end other jobs, or add executors or cores. There may be more slots than "
            "were seen, where Python is slow to start: then start the job again."
        )


def _is_cancelled(error: Exception) -> bool:
    return any(word in str(error) for word in ("CANCELED", "CANCELLED", "cancelled"))


def _dotted(version: list[int]) -> str:
    return ".".join(map(str, version))


def _main(
    address: tuple[str, int], token: bytes, needed: tuple[str, ...], reach_s: float, stay_s: float
) -> Main:
    """What a scout does. It travels by value: nothing of this package need be there yet."""

    def main(batches: Iterator[Any]) -> Iterator[Any]:
        import importlib.util
        import json
        import socket
        import sys

        import pyarrow as pa

        for _ in batches:
            continue
        own, problem = "an address unknown", None
        try:
            own = socket.gethostbyname(socket.gethostname())
        except OSError as error:
            own = f"no address: {error}"
        try:
            with socket.create_connection(address, timeout=reach_s) as way:
                own = way.getsockname()[0]
                way.sendall(token)
                way.settimeout(stay_s)
                if not way.recv(1):
                    problem = "somebody else answers there"
        except OSError as error:
            problem = f"{error or type(error).__name__}"
        found = {
            "host": socket.gethostname(),
            "address": own,
            "executable": sys.executable,
            "python": list(sys.version_info[:2]),
            "missing": [name for name in needed if importlib.util.find_spec(name) is None],
            "problem": problem,
        }
        yield pa.record_batch({"found": [json.dumps(found)]})

    return main
