"""Workers on several hosts, without Spark: what they reach each other by, and what breaks it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drive.ledger import LedgerJob
from tests.services.hosts import Hosts, why_not

ROOT = Path(__file__).parents[2]
WORDS = ("mainstay", "ledger", "shelf")
DRIVER = "tests.hosts.plain_driver"
WITHOUT_KEYS = f"""
import runpy, tests.hosts.plain_wire
runpy.run_module({DRIVER!r}, run_name="__main__")
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    if missing := why_not():
        pytest.skip(f"no hosts: {missing}")
    with Hosts("w1", "w2", "d") as hosts:
        yield hosts


def run(hosts: Hosts, folder: Path, suffix: str = "", *, has_keys: bool = True) -> str:
    """Run a ledger over both hosts, under their names with a suffix; the driver's address."""
    workers = [f"{hosts.namespace(name)}={name}{suffix}" for name in ("w1", "w2")]
    program = ["-m", DRIVER] if has_keys else ["-c", WITHOUT_KEYS]
    folder.mkdir(exist_ok=True)
    command = [sys.executable, *program, str(folder), f"d{suffix}"]
    started = hosts.start("d", [*command, *workers], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    said, _ = started.communicate(timeout=400)
    status, attempts, address = said.split()
    assert (status, attempts) == ("finished", "1")
    LedgerJob(folder, count=4_000, per_second=4_000.0, workers=2).check()
    return address


def test_names_that_have_an_ipv6_address_only_are_reached(hosts: Hosts, tmp_path: Path) -> None:
    assert run(hosts, tmp_path, "-v6").startswith("tcp://d-v6:")


@pytest.mark.soak
def test_interfaces_that_lead_nowhere_do_no_harm(hosts: Hosts, tmp_path: Path) -> None:
    for number, name in enumerate(hosts.names):
        hosts.add_interface(name, f"10.78.{number}.1")
        hosts.add_interface(name, f"10.79.0.{number + 1}")
    assert run(hosts, tmp_path).startswith("tcp://d:")


@pytest.mark.soak
def test_what_goes_from_host_to_host_can_be_read_by_nobody(hosts: Hosts, tmp_path: Path) -> None:
    """Everything is by TCP, and none of the names in its messages is on the wire.

    The same job without keys shows that they would be heard.
    """
    before = hosts.overhear(*WORDS)["frames"]
    run(hosts, tmp_path / "with keys")
    heard = hosts.overhear()
    assert heard["frames"] - before > 100
    assert heard["words"] == []
    run(hosts, tmp_path / "without", has_keys=False)
    assert set(hosts.overhear()["words"]) == set(WORDS)
