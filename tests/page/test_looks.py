"""The page in the dark, on a phone, by keyboard, out of sight; and its weight."""

from __future__ import annotations

import itertools
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.page.conftest import Open
from tests.page.shop import Switches, shop
from tests.serve.jobs import await_true

pytestmark = pytest.mark.browser

VIEWS = ("overview", "epochs", "keys", "history", "state")
PHONE = {"width": 390, "height": 844}
MOST_BYTES = 200_000
MOST_LINES = 400
FILES = [each for each in files("mainstay.serve.page").iterdir() if "." in each.name]
PAGE = {each.name: each.read_text() for each in FILES if not each.name.endswith(".py")}


def visit(page: Any, view: str) -> None:
    page.evaluate("view => { location.hash = `#/${view}`; }", view)
    page.locator(f"nav a[href='#/{view}'][aria-current=page]").wait_for()
    page.locator("main .panel:visible").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_screen(
    finished: tuple[Any, Path], open_page: Open, scheme: str
) -> None:
    page = open_page(finished[0].url, viewport=PHONE, color_scheme=scheme)
    for view in VIEWS:
        visit(page, view)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"], view


HOT = """async (found) => {
  const { hotTable } = await import("/page/subtasks.js");
  const panel = document.createElement("section");  // of its own: views draw theirs anew
  panel.className = "panel";
  panel.append(hotTable(found));
  document.querySelector("main").append(panel);
}"""


def test_hot_keys_are_no_wider_than_a_phone_and_stand_below_their_heads(
    finished: tuple[Any, Path], open_page: Open
) -> None:
    page = open_page(finished[0].url, viewport=PHONE)
    visit(page, "keys")
    key = {"uid": "totals-of-all-customers", "subtask": 1, "key": "2026-11-17 13:05", "share": 0.3}
    page.evaluate(HOT, [key])
    # The job may have had hot keys of its own: ours are the last.
    table = page.get_by_role("region", name="hot keys").locator("table").last
    table.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    sides = "all => all.map(each => getComputedStyle(each).textAlign)"
    heads, cells = (table.locator(each).evaluate_all(sides) for each in ("th", "td"))
    assert heads == cells


@pytest.mark.parametrize("width", [390, 700, 1280])
def test_the_dataflow_fits_into_any_width_and_no_card_covers_another(
    finished: tuple[Any, Path], open_page: Open, width: int
) -> None:
    page = open_page(finished[0].url, viewport={"width": width, "height": 900})
    page.locator("[data-task=largest] .pace").wait_for()
    assert page.locator(".edge").count() == 3
    frame = page.locator(".graph").evaluate("each => each.getBoundingClientRect().toJSON()")
    cards = page.locator(".card").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().toJSON())"
    )
    assert len(cards) == 4
    assert all(frame["left"] <= each["left"] < each["right"] <= frame["right"] for each in cards)
    for one, other in itertools.combinations(cards, 2):
        is_beside = one["right"] <= other["left"] or other["right"] <= one["left"]
        is_above = one["bottom"] <= other["top"] or other["bottom"] <= one["top"]
        assert is_beside or is_above


def test_colours_are_those_of_the_system_until_they_are_changed(
    finished: tuple[Any, Path], open_page: Open
) -> None:
    def lightness(page: Any) -> int:
        colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return sum(int(each) for each in re.findall(r"\d+", colour)[:3])

    page = open_page(finished[0].url, color_scheme="dark")
    page.locator(".pill").wait_for()
    assert lightness(page) < 150
    page.get_by_role("button", name="Change to light colours").click()
    assert lightness(page) > 600
    page.reload()
    page.locator(".pill").wait_for()
    assert lightness(page) > 600


def test_everything_can_be_reached_and_seen_by_keyboard(
    tmp_path: Path, switches: Switches, open_page: Open
) -> None:
    from playwright.sync_api import expect

    job = shop(tmp_path, switches, parallelism=2)
    await_true(lambda: len(job.snapshots()) > 3, "some epochs are complete")
    page = open_page(job.url, reduced_motion="reduce")
    expect(page.locator("[data-task=totals] .pace")).to_contain_text("rows/s")
    reached = walk(page)
    for wanted in ("a Overview", "a State", "button Savepoint", "button Cancel", "div chart"):
        assert wanted in reached, reached
    assert sum(each.startswith("button card") for each in reached) == 4

    page.locator("[data-task=totals]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#subtasks")).to_be_visible()
    page.locator(".chart").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".said:visible")).to_contain_text("Epoch")
    page.keyboard.press("Enter")
    expect(page.locator("#epoch-detail")).to_be_visible()
    assert page.evaluate("document.getAnimations().length") == 0

    page.locator("[data-action=cancel]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    assert job.status == "running"
    job.cancel()
    page.context.close()
    job.server.close()


def walk(page: Any) -> list[str]:
    """What the tabulator reaches, each with a mark that is seen."""
    reached: list[str] = []
    page.locator("body").press("Tab")
    while (name := page.evaluate(FOCUSED)) not in ("", *reached):
        assert "none" not in page.evaluate("getComputedStyle(document.activeElement).outline")
        reached.append(name)
        page.keyboard.press("Tab")
    return reached


FOCUSED = """() => {
  const found = document.activeElement;
  if (!found || found === document.body) return "";
  const name = found.dataset.task ? `card ${found.dataset.task}` : found.textContent.slice(0, 12);
  const what = found.classList.contains("chart") ? "chart" : name;
  return `${found.tagName.toLowerCase()} ${what}`;
}"""


def test_a_page_that_nobody_sees_does_not_listen(
    finished: tuple[Any, Path], open_page: Open
) -> None:
    page = open_page(finished[0].url)
    page.locator(".pill").wait_for()
    server = finished[0].server._uvicorn

    def listeners() -> int:
        return len(server._events._listeners)

    assert listeners() >= 1
    page.evaluate(HIDE, True)
    await_true(lambda: listeners() == 0, "it has stopped to listen")
    page.evaluate(HIDE, False)
    await_true(lambda: listeners() == 1, "it listens again")
    page.locator("html[data-link=open]").wait_for()


HIDE = """isHidden => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


# ---------------------------------------------------------------- its files


def test_the_page_is_light_and_names_no_other_place() -> None:
    assert sum(len(text.encode()) for text in PAGE.values()) < MOST_BYTES
    for name, text in PAGE.items():
        known = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//cdn|@import|\beval\(|innerHTML", known), name
        assert text.count("\n") <= MOST_LINES, name


def test_every_module_is_asked_for_at_once() -> None:
    asked = set(re.findall(r'page/([\w.]+)"', PAGE["index.html"]))
    assert asked == set(PAGE) - {"index.html"}
