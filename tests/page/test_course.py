"""The page of a job from its start to its end, through everything that can happen to it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.serve.server import Server
from tests.drive.ledger import LedgerJob, await_attempt
from tests.page.conftest import Open
from tests.page.shop import Switches, shop
from tests.serve.jobs import await_true

pytestmark = pytest.mark.browser


def test_from_the_start_through_a_held_call_and_a_restart_to_a_failure_and_the_end(
    tmp_path: Path, switches: Switches, open_page: Open
) -> None:
    from playwright.sync_api import expect

    switches.begin.clear()
    job = shop(tmp_path, switches, restart=ms.Restart(max_failures=1, backoff="1ms"))
    page = open_page(job.url, may_be_refused=True)
    headline, pill = page.locator("#headline"), page.locator(".pill")
    silent = page.locator(".mute-note:visible")

    expect(headline).to_contain_text("The job is starting")
    switches.begin.set()
    expect(pill).to_have_text("running")
    expect(page.locator("[data-task=totals] .pace")).to_contain_text("rows/s")
    expect(silent).to_have_count(0)

    switches.hold.set()
    assert switches.is_held.wait(30)
    expect(headline).to_contain_text("not reported")
    expect(page.locator(".verdict")).to_have_attribute("data-kind", "warn")
    expect(silent.first).to_contain_text("4 of 4 silent for")
    page.locator("[data-task=totals]").click()
    expect(page.locator("#subtasks tr[data-mute]")).to_have_count(4)
    switches.release()
    expect(silent).to_have_count(0)

    switches.fail.set()
    expect(page.locator("[data-field=attempt]")).to_have_text("2")
    page.locator("nav >> text=History").click()
    expect(page.locator(".failure")).to_have_count(1)
    await_true(lambda: job.status == "running", "it runs again")
    switches.fail.set()
    expect(pill).to_have_text("failed")
    expect(page.locator(".failure")).to_have_count(2)
    traceback = page.locator(".failure[open] pre")
    expect(traceback).to_contain_text("in process")
    expect(traceback).to_contain_text("has no price")
    page.locator("nav >> text=Overview").click()
    expect(headline).to_contain_text("The job has failed at epoch")
    expect(page.locator(".remedy")).to_contain_text("restore='latest'")
    expect(page.locator("[data-action=cancel]")).to_be_disabled()

    job.server.close()
    notice = page.locator(".notice")
    expect(notice).to_contain_text("The server has not answered since")
    expect(notice).to_contain_text(f"mainstay ui {tmp_path}")
    expect(pill).to_have_text("not answering")


def test_a_killed_worker_is_seen_and_the_job_goes_on(tmp_path: Path, open_page: Open) -> None:
    from playwright.sync_api import expect

    ledger = LedgerJob(tmp_path)
    job: Any = ledger.start()
    Server(ms.Ui()).serve(job, ledger.directory)
    page = open_page(job.url)
    pids = await_attempt(job, 1, 3)
    expect(page.locator(".pill")).to_have_text("running")
    os.kill(pids[1], signal.SIGKILL)
    expect(page.locator("[data-field=attempt]")).to_have_text("2")
    page.locator("nav >> text=History").click()
    expect(page.locator(".failure summary")).to_contain_text("SIGKILL")
    expect(page.locator(".lane .name b")).to_have_text(["Attempt 1", "Attempt 2"])
    expect(page.locator(".pill")).to_have_text("running")
    job.cancel()
    expect(page.locator(".pill")).to_have_text("cancelled")
    page.context.close()
    job.server.close()


def test_a_job_is_rescaled_saved_and_stopped_by_buttons_that_ask_first(
    tmp_path: Path, switches: Switches, open_page: Open
) -> None:
    from playwright.sync_api import expect

    job = shop(tmp_path / "snapshots", switches, parallelism=2)
    page = open_page(job.url, may_be_refused=True)
    dialog, outcome = page.locator("dialog"), page.locator("dialog .outcome")

    def ask(action: str) -> None:
        page.locator(f"[data-action={action}]").click()

    await_true(lambda: len(job.snapshots()) > 1, "an epoch is complete")
    ask("cancel")
    expect(dialog).to_contain_text("Cancel the job")
    dialog.get_by_role("button", name="Go back").click()
    expect(dialog).to_have_count(0)
    assert job.status == "running"

    ask("savepoint")
    dialog.locator("[name=path]").fill("somewhere")
    dialog.get_by_role("button", name="Write the savepoint").click()
    expect(outcome).to_contain_text("The path 'somewhere' is relative.")
    dialog.locator("[name=path]").fill(str(tmp_path / "saved"))
    dialog.get_by_role("button", name="Write the savepoint").click()
    expect(outcome).to_contain_text(f"The savepoint is written. It is at {tmp_path / 'saved'}")
    dialog.get_by_role("button", name="Close").click()

    ask("rescale")
    dialog.locator("[name=parallelism]").fill("3")
    dialog.get_by_role("button", name="Rescale the job").click()
    expect(outcome).to_contain_text("The job runs at parallelism 3.")
    page.keyboard.press("Escape")
    expect(page.locator("[data-field=parallelism]")).to_have_text("3")
    expect(page.locator("[data-task=totals] .times")).to_have_text("×3")

    ask("stop")
    dialog.get_by_role("button", name="Stop the job").click()
    expect(outcome).to_contain_text("The job is stopped.")
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator(".pill")).to_have_text("stopped")
    expect(page.locator("[data-action=stop]")).to_be_disabled()
    page.locator("nav >> text=History").click()
    for kind in ("rescale", "savepoint", "end"):
        expect(page.locator(f".event-{kind}").first).to_be_visible()
    job.server.close()


def test_a_driver_on_standby_says_so_and_its_page_follows_when_it_leads(
    tmp_path: Path, open_page: Open
) -> None:
    from playwright.sync_api import expect

    ha = ms.HighAvailability(lease="1s")
    leads, waits = Switches(), Switches()
    first = shop(tmp_path, leads, ha=ha)
    await_true(lambda: first.status == "running" and first.snapshots(), "the first one leads")
    second = shop(tmp_path, waits, ha=ha)
    page = open_page(second.url)
    expect(page.locator(".notice")).to_contain_text("Standby.")
    expect(page.locator(".pill")).to_have_text("standby")
    expect(page.locator("[data-action=stop]")).to_be_disabled()
    first.post(first._leadership.leave)
    expect(page.locator(".pill")).to_have_text("running")
    expect(page.locator(".notice")).to_be_hidden()
    expect(page.locator("[data-task=totals]")).to_be_visible()
    second.cancel()
    page.context.close()
    first.server.close()
    second.server.close()
