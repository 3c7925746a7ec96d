"""A browser without a window, and pages that may neither complain nor ask anybody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.page.shop import Switches
from tests.services.browser import BROWSERS, installed_browser
from tests.services.browser import browser as opened_browser

PATIENCE_MS = 30_000
REFUSED = "Failed to load resource"
"""So a browser tells of an answer that is an error, or of none; pages cannot keep it from that."""

Open = Callable[..., Any]


# While Playwright runs no test of the same process can have an event loop of its own: so each
# module has its browser, and leaves none behind.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if installed_browser() is None:
        pytest.skip(f"no browser: {', '.join(BROWSERS)} are not installed")
    playwright.expect.set_options(timeout=PATIENCE_MS)
    with opened_browser() as opened:
        yield opened


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens pages. At the end none may have said an error, or asked anybody but its own server."""
    contexts, said = [], []

    def watch(page: Any, address: str, may_be_refused: bool) -> None:
        def hear(message: Any) -> None:
            is_refusal = may_be_refused and message.text.startswith(REFUSED)
            if message.type in ("error", "warning") and not is_refusal:
                said.append(message.text)

        def see(request: Any) -> None:
            if urlsplit(request.url).netloc != address:
                said.append(f"asked {request.url}")

        page.on("console", hear)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", see)

    def open_page(url: str, *, may_be_refused: bool = False, **settings: Any) -> Any:
        settings.setdefault("viewport", {"width": 1280, "height": 900})
        context = browser.new_context(**settings)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        watch(page, urlsplit(url).netloc, may_be_refused)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


@pytest.fixture
def switches() -> Iterator[Switches]:
    found = Switches()
    yield found
    found.release()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """A job that has finished, and its directory; nothing of it changes any more."""
    from tests.page.shop import shop
    from tests.serve.jobs import await_true

    directory, told = tmp_path_factory.mktemp("finished"), Switches()
    job = shop(directory, told, parallelism=2)
    await_true(lambda: len(job.snapshots()) > 4, "some epochs are complete")
    told.over.set()
    assert job.wait(60, progress=False) == "finished"
    yield job, directory
    job.server.close()
