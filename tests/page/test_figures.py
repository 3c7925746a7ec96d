"""What the page shows is what REST answers, online and offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.serve.server import Server
from mainstay.serve.stored import StoredView
from tests.page.conftest import Open
from tests.serve.jobs import API, client_of, parts

pytestmark = pytest.mark.browser


def cells(page: Any, rows: str, column: int) -> list[str]:
    found: list[str] = page.locator(f"{rows} td:nth-child({column})").all_inner_texts()
    return found


def test_every_figure_of_a_finished_job_is_that_of_rest(
    finished: tuple[Any, Path], open_page: Open
) -> None:
    from playwright.sync_api import expect

    job, _ = finished
    page = open_page(job.url)
    with client_of(job.url) as client:

        def get(path: str) -> Any:
            return client.get(f"{API}/{path}").json()

        about, tasks, epochs = get("job"), get("tasks")["tasks"], get("epochs")
        expect(page.locator("#headline")).to_have_text(about["verdict"]["headline"])
        for field in ("epoch", "parallelism", "attempt"):
            expect(page.locator(f"[data-field={field}]")).to_have_text(f"{about[field]:,}")
        expect(page.locator(".tile-rows_in_per_s")).to_contain_text(f"{about['rows_in']:,} in this")
        assert page.locator(".card").count() == len(tasks)

        totals = next(each for each in tasks if each["task"] == "totals")
        page.locator("[data-task=totals]").click()
        # A table of hot keys may stand below it, where the sample has found some.
        rows = "#subtasks table:not(.hot-keys) tbody tr"
        expect(page.locator(rows)).to_have_count(totals["parallelism"])
        shown = cells(page, rows, 2)
        assert shown == [f"{each['rows']:,}" for each in totals["subtasks"]]

        page.locator("nav >> text=Epochs").click()
        ended = [str(each["epoch"]) for each in epochs][::-1][:30]
        expect(page.locator("tbody tr[data-status] a")).to_have_text(ended)
        expect(page.locator(".scatter g.dot")).to_have_count(len(epochs))
        last = next(each["epoch"] for each in reversed(epochs) if each["status"] == "complete")
        page.get_by_role("link", name=str(last), exact=True).click()
        measured = get(f"epochs/{last}")["subtasks"]
        expect(page.locator("#epoch-detail .phase-bar")).to_have_count(min(24, len(measured)))

        page.locator("nav >> text=Key-groups").click()
        for uid in ("totals", "largest"):
            groups = get(f"key_groups/{uid}")["groups"]
            count = sum(each["rows"] for each in groups)
            strip = page.locator(f"[data-operator={uid}]")
            expect(strip).to_contain_text(f"{count:,} rows in {len(groups)} groups")
            expect(strip.locator(".cell")).to_have_count(len(groups))

        page.locator("nav >> text=History").click()
        happened = [each["text"] for each in get("timeline")][::-1]
        expect(page.locator(".event .what")).to_have_text(happened)


def test_state_is_found_by_key_scanned_and_compared_between_epochs(
    finished: tuple[Any, Path], open_page: Open
) -> None:
    from playwright.sync_api import expect

    job, _ = finished
    page = open_page(job.url, may_be_refused=True)
    page.locator("nav >> text=State").click()
    with client_of(job.url) as client:

        def asked(**more: Any) -> Any:
            found = client.post(f"{API}/query", json={"states": ["totals.total"], **more})
            return found.json()["answers"][0]["rows"]

        page.select_option("#state", "totals.total")
        page.fill("#keys", "7\n8")
        page.get_by_role("button", name="Show").click()
        answer = page.locator("#answer")
        expect(answer.locator(".summary")).to_contain_text(f"of epoch {job.snapshots()[-1].epoch}")
        rows = asked(keys=[7, 8])
        assert cells(page, "#answer tbody tr", 1) == [str(each["customer"]) for each in rows]
        assert cells(page, "#answer tbody tr", 2) == [str(each["total"]) for each in rows]

        page.fill("#keys", "")
        page.fill("#limit", "10")
        page.get_by_role("button", name="Show").click()
        expect(answer.locator(".summary")).to_contain_text("There are more than 10")
        expect(answer.locator("tbody tr")).to_have_count(10)

        kept = [each["epoch"] for each in client.get(f"{API}/epochs").json() if each["is_kept"]]
        page.fill("#keys", "7")
        page.select_option("#other", str(kept[0]))
        page.get_by_role("button", name="Show").click()
        expect(answer.locator(".summary")).to_contain_text(f"From epoch {kept[0]} to epoch")
        before, after = asked(keys=[7], epoch=kept[0])[0], asked(keys=[7])[0]
        change = answer.locator("tbody tr")
        expect(change).to_have_attribute("data-how", "changed")
        expect(change).to_contain_text(str(before["total"]))
        expect(change).to_contain_text(str(after["total"]))

        page.fill("#keys", "someone")
        page.get_by_role("button", name="Show").click()
        expect(answer).to_contain_text("'someone' is no long")
    assert page.evaluate("document.querySelector('#answer [role=alert]') !== null")


def test_a_directory_alone_is_shown_and_a_page_comes_back_when_its_server_does(
    finished: tuple[Any, Path], open_page: Open
) -> None:
    from playwright.sync_api import expect

    _, directory = finished
    server = Server(ms.Ui())
    server.show(StoredView(str(directory)))
    page = open_page(server.url, may_be_refused=True)
    notice = page.locator(".notice")
    expect(notice).to_contain_text("Offline.")
    expect(notice).to_contain_text(str(directory))
    expect(page.locator("#headline")).to_contain_text("The job has finished at epoch")
    expect(page.locator("[data-field=rows_in_per_s]")).to_have_text("–")
    expect(page.locator(".card")).not_to_have_count(0)
    expect(page.locator("[data-action=savepoint]")).to_be_disabled()
    page.locator("nav >> text=State").click()
    expect(page.locator("#at option")).not_to_have_count(1)
    assert "live" not in page.locator("#at").inner_text()

    server.close()
    expect(notice).to_contain_text("The server has not answered since")
    _, token = parts(server.url)
    again = Server(ms.Ui(port=server.port, token=token))
    again.show(StoredView(str(directory)))
    expect(notice).to_contain_text("Offline.")
    expect(page.locator(".pill")).to_have_text("finished")
    again.close()


def test_a_wrong_token_and_none_get_a_form_that_asks_for_it(
    finished: tuple[Any, Path], open_page: Open
) -> None:
    from playwright.sync_api import expect

    job, _ = finished
    address, token = parts(job.url)
    page = open_page(f"{address}/#token={'x' * 24}", may_be_refused=True)
    expect(page.get_by_role("alert")).to_contain_text("The token was refused")
    page.get_by_label("Token").fill(job.url)
    page.get_by_role("button", name="Show the job").click()
    expect(page.locator(".pill")).to_have_text("finished")
    assert token not in page.url
    page.reload()
    expect(page.locator(".pill")).to_have_text("finished")

    none = open_page(address)
    expect(none.locator("h1")).to_have_text("A token is needed")
    none.get_by_label("Token").fill(token)
    none.keyboard.press("Enter")
    expect(none.locator(".pill")).to_have_text("finished")
