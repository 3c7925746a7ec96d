"""``python -m tests.page.screenshots [FOLDER]``: the pictures of docs/dashboard.md, of real jobs.

One job runs, is rescaled, writes a savepoint, restarts after a failure and fails for good; each
picture is taken of its page, or of its directory when it is over.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.serve.server import Server
from mainstay.serve.stored import StoredView
from tests.page.conftest import PATIENCE_MS
from tests.page.shop import Switches, shop
from tests.pages import ROOT
from tests.serve.jobs import await_true
from tests.services.browser import browser

FOLDER = ROOT / "docs" / "images"
WIDE, PHONE = {"width": 1280, "height": 980}, {"width": 390, "height": 1250}
EPOCHS = 25


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as opened, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        switches = Switches()
        restart = ms.Restart(max_failures=1, backoff="1ms")
        directory = Path(place) / "snapshots"
        snapshots = ms.Snapshots(directory, every="500ms", retain=20)
        job = shop(directory, switches, restart=restart, snapshots=snapshots, per_second=3_000.0)
        camera = Camera(opened, folder, {str(ROOT / "tests" / "page"): "/srv", place: "/data"})
        await_true(lambda: len(job.snapshots()) > EPOCHS, "there are epochs to be seen")
        _while_it_runs(camera, job, place)
        _when_it_has_failed(camera, job, switches)
        server = Server(ms.Ui())
        server.show(StoredView(str(directory)))
        camera.take("dashboard-offline-dark", server.url, "overview", color_scheme="dark")


def _while_it_runs(camera: Camera, job: Any, place: str) -> None:
    camera.take("dashboard-overview", job.url, "overview/totals")
    camera.take("dashboard-overview-dark", job.url, "overview/totals", color_scheme="dark")
    camera.take("dashboard-overview-phone", job.url, "overview", viewport=PHONE)
    camera.take("dashboard-epochs", job.url, "epochs", then=_show_an_epoch)
    camera.take("dashboard-keys", job.url, "keys", viewport={"width": 1280, "height": 520})
    camera.take("dashboard-state", job.url, "state", then=_compare)
    job.rescale(3)
    job.savepoint(f"{place}/before-the-change")


def _show_an_epoch(page: Any) -> None:
    page.locator("tbody tr[data-status=complete] a").nth(2).click()
    page.locator("#epoch-detail .phase-bar").first.wait_for()


def _compare(page: Any) -> None:
    page.locator("#other option").nth(2).wait_for(state="attached")
    page.select_option("#state", "totals.total")
    page.select_option("#other", index=4)
    page.fill("#keys", "7\n8\n15\n16\n23\n42")
    page.get_by_role("button", name="Show").click()
    page.locator("#answer tbody tr").first.wait_for()


def _when_it_has_failed(camera: Camera, job: Any, switches: Switches) -> None:
    switches.fail.set()
    await_true(lambda: len(job.attempts()) == 3 and job.status == "running", "it runs again")
    before = len(job.snapshots())
    await_true(lambda: len(job.snapshots()) > before + 5, "it goes on")
    switches.fail.set()
    await_true(lambda: job.status == "failed", "it fails for good")
    camera.take("dashboard-failed", job.url, "overview")
    camera.take("dashboard-history", job.url, "history")
    camera.take("dashboard-history-phone", job.url, "history", viewport=PHONE, color_scheme="dark")


class Camera:
    """Opens a page at a view, and keeps what is seen when the view is complete.

    ``places`` are folders of this machine, and what stands for them in the pictures.
    """

    def __init__(self, browser: Any, folder: Path, places: dict[str, str]) -> None:
        self._browser = browser
        self._folder = folder
        self._places = places

    def take(self, name: str, url: str, view: str, then: Any = None, **settings: Any) -> None:
        settings.setdefault("viewport", WIDE)
        context = self._browser.new_context(reduced_motion="reduce", **settings)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto(url)
        page.locator("#headline").wait_for()
        page.evaluate("view => { location.hash = `#/${view}`; }", view)
        page.locator(READY[view.partition("/")[0]]).first.wait_for()
        if view.startswith("overview") and not is_offline(page):
            # Some rates, so that there is a line to be seen.
            page.locator(".spark:not(.empty)").first.wait_for()
        if then is not None:
            then(page)
        page.evaluate(RENAME, self._places)
        page.screenshot(path=self._folder / f"{name}.png")
        context.close()


def is_offline(page: Any) -> bool:
    return bool(page.get_by_text("Offline.").count())


RENAME = """places => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const [place, name] of Object.entries(places)) {
      node.data = node.data.replaceAll(place, name);
    }
  }
}"""
READY = {
    "overview": ".scatter .dot",
    "epochs": ".scatter .dot",
    "keys": ".heat .cell",
    "history": ".event",
    "state": "#state",
}


if __name__ == "__main__":
    main()
