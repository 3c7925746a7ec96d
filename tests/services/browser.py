"""A browser without a window: the system's own Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")


def installed_browser() -> str | None:
    """The program; None where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def browser() -> Iterator[Any]:
    """One that is open meanwhile. Who can do without it asks for ``installed_browser`` first."""
    from playwright.sync_api import sync_playwright

    found = installed_browser()
    if found is None:
        raise SystemExit(f"there is no browser here: none of {', '.join(BROWSERS)} is installed.")
    with sync_playwright() as running:
        opened = running.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()
