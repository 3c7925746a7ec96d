"""Several hosts on one machine: network namespaces that a switch in user space plugs together.

::

    with Hosts("m", "w1", "d") as hosts:
        hosts.start("w1", ["python", "-m", "http.server"])
        hosts.cut("w1")              # its cable is out: nobody hears it, and it hears nobody
        hosts.mend("w1")
        hosts.cut("w1", "in")        # it is heard, and hears nobody
        hosts.slow("w1", 0.025, loss=0.01)
        hosts.reboot("w1")           # everything that runs there is killed

Hosts have their network and their name to themselves; files, clocks and process ids they share.
They see each other under ``10.77.0.0/24`` and ``fd77::/64``, and by name: ``w1``, and ``w1-v6``
which has an IPv6 address only. Nothing of it can be reached from the machine, or reaches out.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
SETTINGS = Path("/etc/netns")
PREFIX = "mainstay-"
PATIENCE_S = 20.0
_numbers = itertools.count(1)


def why_not() -> str | None:
    """Why there cannot be hosts here; None where there can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "unshare"):
        if shutil.which(program) is None:
            return f"there is no command {program!r}"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    probe = f"{PREFIX}{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode != 0:
        return f"no network namespace can be made: {made.stderr.strip()}"
    _ip("netns", "del", probe)
    return None


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def remove_left_behind() -> None:
    """Remove the hosts of processes that were killed before they could."""
    for line in _ip("netns", "list").splitlines():
        name = line.split()[0]
        owner = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and owner.isdigit() and not psutil.pid_exists(int(owner)):
            _remove(name)


def _remove(namespace: str) -> None:
    _kill_all(namespace)
    _ip("netns", "del", namespace)
    shutil.rmtree(SETTINGS / namespace, ignore_errors=True)


def _kill_all(namespace: str) -> None:
    """Kill what runs in a namespace, also what is started there meanwhile."""
    until = time.monotonic() + PATIENCE_S
    while pids := [int(pid) for pid in _ip("netns", "pids", namespace).split()]:
        assert time.monotonic() < until, f"processes {pids} of {namespace} do not end"
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)


class Hosts:
    """Hosts until they are closed, by the names they have for each other."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self._number = next(_numbers)
        self._switch: subprocess.Popen[str] | None = None

    def __enter__(self) -> Hosts:
        remove_left_behind()
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything, also what was only half made."""
        made = {line.split()[0] for line in _ip("netns", "list").splitlines()}
        for name in self.names:
            if self.namespace(name) in made:
                _remove(self.namespace(name))
            shutil.rmtree(SETTINGS / self.namespace(name), ignore_errors=True)
        if self._switch is not None:
            self._switch.kill()
            self._switch.communicate()
            self._switch = None
        # Only where it is empty: it may be somebody else's as well.
        with contextlib.suppress(OSError):
            SETTINGS.rmdir()

    # ------------------------------------------------------------ what there is

    def namespace(self, name: str) -> str:
        return f"{PREFIX}{os.getpid()}-{self._number}-{name}"

    def address(self, name: str) -> str:
        return f"10.77.0.{11 + self.names.index(name)}"

    def address6(self, name: str) -> str:
        return f"fd77::{11 + self.names.index(name)}"

    def pids(self, name: str) -> list[int]:
        return [int(pid) for pid in _ip("netns", "pids", self.namespace(name)).split()]

    # ------------------------------------------------------------ making them

    def _make(self) -> None:
        for name in self.names:
            _ip("netns", "add", self.namespace(name))
            _ip("-n", self.namespace(name), "link", "set", "lo", "up")
            folder = SETTINGS / self.namespace(name)
            folder.mkdir(parents=True)
            (folder / "hosts").write_text(self._hosts_file())
            # What is not in that file is not to be looked for on the machine's network.
            (folder / "resolv.conf").write_text("")
        self._plug_in()
        for name in self.names:
            link = ["-n", self.namespace(name)]
            _ip(*link, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            _ip(*link, "addr", "add", f"{self.address6(name)}/64", "dev", "eth0", "nodad")
            _ip(*link, "link", "set", "eth0", "up")

    def _hosts_file(self) -> str:
        lines = ["127.0.0.1 localhost", "::1 localhost6"]
        for name in self.names:
            lines += [f"{self.address(name)} {name}", f"{self.address6(name)} {name}-v6"]
        return "\n".join(lines) + "\n"

    def _plug_in(self) -> None:
        namespaces = [self.namespace(name) for name in self.names]
        self._switch = subprocess.Popen(
            [sys.executable, "-m", "tests.services.switch", *namespaces],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._switch.stdout is not None
        said = self._switch.stdout.readline().strip()
        assert said == "plugged in", f"the switch says {said!r}"

    def add_interface(self, name: str, address: str) -> None:
        """Another interface that leads nowhere, as a machine has several."""
        link = ["-n", self.namespace(name)]
        device = f"aside{len(_ip(*link, '-o', 'link').splitlines())}"
        _ip(*link, "link", "add", device, "type", "veth", "peer", "name", f"{device}-end")
        _ip(*link, "addr", "add", f"{address}/24", "dev", device)
        for end in (device, f"{device}-end"):
            _ip(*link, "link", "set", end, "up")

    def lose_way(self, name: str, to: str) -> None:
        """Have a host no way to another any more, which still has one to it: no answer comes."""
        _ip("-n", self.namespace(name), "route", "add", "blackhole", f"{self.address(to)}/32")

    def find_way(self, name: str, to: str) -> None:
        """There is a way again."""
        _ip("-n", self.namespace(name), "route", "del", "blackhole", f"{self.address(to)}/32")

    # ------------------------------------------------------------ what happens to them

    def command(self, name: str, command: Sequence[str]) -> list[str]:
        """A command as it is run on a host. Nothing forks, so its process is the one started."""
        named = ["unshare", "-u", "sh", "-c", 'hostname "$0" && exec "$@"', name]
        return ["ip", "netns", "exec", self.namespace(name), *named, *command]

    def start(self, name: str, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen(self.command(name, command), **options)

    def cut(self, name: str, way: str = "both") -> None:
        """Take its cable out; ``in``: it hears nobody, ``out``: nobody hears it."""
        assert way in ("both", "in", "out")
        self._tell(host=self.names.index(name), hears=way == "out", is_heard=way == "in")

    def mend(self, name: str) -> None:
        """Its cable is in, and as good as any."""
        good = {"hears": True, "is_heard": True, "delay_s": 0.0, "loss": 0.0}
        self._tell(host=self.names.index(name), **good)

    def slow(self, name: str, delay_s: float, loss: float = 0.0) -> None:
        """Each frame takes so long each way, and so many of them are lost."""
        self._tell(host=self.names.index(name), delay_s=delay_s, loss=loss)

    def reboot(self, name: str) -> None:
        """Kill everything that runs on it; its network stays up."""
        _kill_all(self.namespace(name))

    def overhear(self, *words: str) -> dict[str, Any]:
        """Listen for words on the wire; which were heard so far, and how many frames there were."""
        heard = self._tell()
        for word in words:
            heard = self._tell(overhear=word)
        return heard

    def _tell(self, **change: Any) -> dict[str, Any]:
        """Have the switch do something; it is done when this returns."""
        assert self._switch is not None
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        self._switch.stdin.write(json.dumps(change) + "\n")
        self._switch.stdin.flush()
        heard: dict[str, Any] = json.loads(self._switch.stdout.readline())
        return heard
