"""What is around the jobs, and what may happen to it: disks, the broker and the database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from tests.services.kafka import KafkaBroker
from tests.services.postgres import PostgresServer
from tests.together.jobs import TogetherJob
from tests.together.plan import Planned
from tests.together.storage import SmallDisk

PATIENCE_S = 600.0
"""For what comes back by itself, on a machine that has other things to do."""

Act: TypeAlias = "Callable[[Planned, TogetherJob], None]"


class Skipped(Exception):  # noqa: N818 - it is a reason, and no error
    """An event that met nobody."""


class Around:
    """``disk`` has the snapshots, ``local`` RocksDB's files and those of sinks."""

    def __init__(
        self, disk: SmallDisk, local: SmallDisk, broker: KafkaBroker, postgres: PostgresServer
    ) -> None:
        self._disk, self._local = disk, local
        self._broker, self._postgres = broker, postgres
        self._locks = {name: threading.Lock() for name in ("kafka", "postgres")}

    def acts(self) -> dict[str, Act]:
        """What is done, by the kind of an event."""
        return {
            **disk_acts(self._disk, self._local),
            "stop postgres": self._stop_postgres,
            "stop kafka": self._stop_kafka,
            "freeze kafka": self._freeze_kafka,
        }

    def _stop_postgres(self, event: Planned, _: TogetherJob) -> None:
        with self._locks["postgres"]:
            self._postgres.stop("immediate" if event.whom < 0.5 else "fast")
            threading.Event().wait(event.lasts_s)
            self._postgres.start()

    def _stop_kafka(self, event: Planned, _: TogetherJob) -> None:
        with self._locks["kafka"]:
            self._broker.stop()
            threading.Event().wait(event.lasts_s)
            self._broker.start(PATIENCE_S)

    def _freeze_kafka(self, event: Planned, _: TogetherJob) -> None:
        with self._locks["kafka"]:
            self._broker.freeze()
            try:
                threading.Event().wait(event.lasts_s)
            finally:
                self._broker.thaw()


def disk_acts(disk: SmallDisk, local: SmallDisk) -> dict[str, Act]:
    return {
        "fill the disk": lambda event, _: _on(disk, disk.fill, event),
        "fill the local disk": lambda event, _: _on(local, local.fill, event),
        "storage read-only": lambda event, _: _on(disk, disk.be_read_only, event),
    }


def _on(disk: SmallDisk, act: Callable[[float], None], event: Planned) -> None:
    if disk.reason is not None:
        raise Skipped(disk.reason)
    act(event.lasts_s)
