"""Which processes of the cluster belong to which job, found from outside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from tests.together.jobs import TogetherJob

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def executors_of(cluster: Path, job: TogetherJob) -> list[psutil.Process]:
    """The executors of all drivers of a job, by the folder and the address of the driver."""
    ports = {port for driver in job.drivers for port in _ports(driver.process.pid)}
    found = []
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            if EXECUTOR not in command or cluster not in Path(process.cwd()).parents:
                continue
            url = command[command.index("--driver-url") + 1]
            if int(url.rpartition(":")[2]) in ports:
                found.append(process)
        except (psutil.Error, ValueError):
            continue
    return sorted(found, key=lambda each: each.pid)


def _ports(pid: int) -> set[int]:
    """What the JVM of a driver listens on."""
    try:
        program = psutil.Process(pid)
        family = [program, *program.children(recursive=True)]
        return {
            each.laddr.port
            for member in family
            for each in member.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN
        }
    except psutil.Error:
        return set()


def workers_of(cluster: Path, job: TogetherJob) -> list[psutil.Process]:
    """Processes of Python below the executors that are linked to others: workers of an attempt."""
    above = executors_of(cluster, job) if job.master else _programs(job)
    return [process for each in above for process in _below(each) if _is_linked(process)]


def _programs(job: TogetherJob) -> list[psutil.Process]:
    """The drivers, which start workers themselves where there is no cluster."""
    return [psutil.Process(each.process.pid) for each in list(job.drivers) if each.is_alive]


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_linked(process: psutil.Process) -> bool:
    try:
        return any("mainstay" in str(each.laddr) for each in process.net_connections("unix"))
    except psutil.Error:
        return False
