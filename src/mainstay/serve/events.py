"""Server-sent events: what is new of a job, every second, once for all who listen.

Nothing is computed while nobody does. Who reads too slowly misses events, and holds nobody up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool

from mainstay.serve.documents import Document, EpochDocument, EventDocument
from mainstay.serve.past import PENDING
from mainstay.serve.refusals import document_of, refusal_of
from mainstay.serve.view import JobView

EVERY_S = 1.0
RECENT_EPOCHS = 50
"""How many epochs an event tells of at most; those of the first are the newest."""
MOST_LISTENERS = 64


class Events:
    """The listeners of one job, and the task that sends to them while there are any."""

    def __init__(self, view: JobView, every_s: float = EVERY_S) -> None:
        self._view = view
        self._every_s = every_s
        self._listeners: set[asyncio.Queue[bytes | None]] = set()
        self._sending: asyncio.Task[None] | None = None
        self._seen = (0, 0)
        self._latest: bytes | None = None
        self.computed = 0
        """How many events were made."""

    @property
    def is_sending(self) -> bool:
        return self._sending is not None and not self._sending.done()

    @property
    def is_full(self) -> bool:
        return len(self._listeners) >= MOST_LISTENERS

    async def listen(self) -> AsyncIterator[bytes]:
        """The last event, and those from now on, for one listener."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self._listeners.add(queue)
        if not self.is_sending:
            self._seen, self._latest = (0, 0), None
            self._sending = asyncio.create_task(self._send())
        elif self._latest is not None:
            queue.put_nowait(self._latest)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._listeners.discard(queue)

    def close(self) -> None:
        """End it for all who listen: a stream that never ends would hold up the server's end."""
        self._tell_all(None)

    def _tell_all(self, event: bytes | None) -> None:
        for queue in list(self._listeners):
            if queue.full():
                queue.get_nowait()  # the older one says little that this one does not
            queue.put_nowait(event)

    async def _send(self) -> None:
        while self._listeners:
            event = await run_in_threadpool(self._event)
            self._latest = event
            self._tell_all(event)
            await asyncio.sleep(self._every_s)

    def _event(self) -> bytes:
        self.computed += 1
        try:
            return _encoded("state", self._state())
        except Exception as error:
            # The listeners stay, because the storage may answer again in a second.
            return _encoded("error", document_of(refusal_of(error)))

    def _state(self) -> EventDocument:
        job, tasks = self._view.now()
        return EventDocument(
            job=job,
            tasks=tasks,
            epochs_since=self._epochs(),
            kept_epochs=self._view.kept_epochs(),
        )

    def _epochs(self) -> list[EpochDocument]:
        """Those that are new since the last event but one, and those that are under way.

        So each comes twice, and who misses an event misses no epoch.
        """
        epochs = self._view.epochs(RECENT_EPOCHS)
        before_last, last = self._seen
        newest = max((each.epoch for each in epochs if each.status != PENDING), default=last)
        self._seen = last, newest
        return [each for each in epochs if each.epoch > before_last or each.status == PENDING]


def _encoded(name: str, document: Document) -> bytes:
    return f"event: {name}\ndata: {document.model_dump_json()}\n\n".encode()
