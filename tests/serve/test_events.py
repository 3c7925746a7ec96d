"""Events: made once for all who listen, and not at all while nobody does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mainstay.serve.events import MOST_LISTENERS, Events
from mainstay.serve.stored import StoredView

PATIENCE_S = 30.0
SOON_S = 0.001


@pytest.fixture
def view(finished_directory: Path) -> StoredView:
    return StoredView(str(finished_directory))


def document(event: bytes) -> tuple[str, Any]:
    name, data, *_ = event.decode().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def next_of(listening: Any) -> tuple[str, Any]:
    return document(await asyncio.wait_for(anext(listening), PATIENCE_S))


def test_all_who_listen_get_what_was_made_once(view: StoredView) -> None:
    async def listen() -> None:
        events = Events(view, every_s=3600.0)
        assert not events.is_sending
        many = [events.listen() for _ in range(10)]
        found = await asyncio.gather(*(next_of(each) for each in many))
        assert events.computed == 1
        assert {name for name, _ in found} == {"state"}
        assert all(each == found[0] for each in found)

    asyncio.run(listen())


def test_who_comes_later_gets_the_last_one_at_once(view: StoredView) -> None:
    async def listen() -> None:
        events = Events(view, every_s=3600.0)
        first = await next_of(events.listen())
        assert await next_of(events.listen()) == first
        assert events.computed == 1

    asyncio.run(listen())


def test_nothing_is_made_when_the_last_listener_has_gone(view: StoredView) -> None:
    async def listen() -> None:
        events = Events(view, every_s=SOON_S)
        listening = events.listen()
        await next_of(listening)
        await listening.aclose()  # type: ignore[attr-defined]
        sending = events._sending
        assert sending is not None
        await asyncio.wait_for(sending, PATIENCE_S)
        assert not events.is_sending

    asyncio.run(listen())


def test_every_epoch_is_told_of_and_old_ones_are_not_again_and_again(view: StoredView) -> None:
    async def listen() -> None:
        events = Events(view, every_s=SOON_S)
        listening = events.listen()
        told = [(await next_of(listening))[1]["epochs_since"] for _ in range(4)]
        known = [each.epoch for each in view.epochs(1000)]
        assert [each["epoch"] for each in told[0]] == known[-50:]
        assert told[-1] == []

    asyncio.run(listen())


def test_a_slow_listener_misses_events_and_holds_nobody_up(view: StoredView) -> None:
    async def listen() -> None:
        events = Events(view, every_s=SOON_S)
        slow, quick = events.listen(), events.listen()
        await next_of(slow)
        for _ in range(5):
            await next_of(quick)
        assert events.computed >= 5
        await next_of(slow)

    asyncio.run(listen())


def test_a_view_that_cannot_answer_says_so_and_may_answer_later(
    view: StoredView, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listen() -> None:
        events = Events(view, every_s=SOON_S)
        listening = events.listen()
        with monkeypatch.context() as broken:
            broken.setattr(view, "now", away)
            name, said = await next_of(listening)
            assert (name, said["kind"]) == ("error", "timeout")
        while (await next_of(listening))[0] != "state":
            continue

    def away() -> Any:
        raise TimeoutError("the storage does not answer")

    asyncio.run(listen())


def test_there_is_room_for_many_listeners_and_not_for_all_of_the_world(view: StoredView) -> None:
    async def listen() -> None:
        events = Events(view, every_s=3600.0)
        many = [events.listen() for _ in range(MOST_LISTENERS)]
        await asyncio.gather(*(next_of(each) for each in many))
        assert events.is_full

    asyncio.run(listen())
