"""The pages of the ledger, and what the errors of a Kafka client mean. No broker is needed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.connectors.kafka.client import KafkaSettings, Noted, meaning
from mainstay.connectors.kafka.ledger import Page
from mainstay.errors import SinkError
from mainstay.runtime.connector import UnavailableError

EPOCHS = st.integers(1, 40)


def stored(page: Page) -> Page:
    return Page.parse(page.upto, page.to_metadata(), "page")


@given(st.sets(EPOCHS, min_size=1), st.data())
def test_a_page_has_what_was_delivered_and_nothing_else(
    prepared: set[int], data: st.DataObject
) -> None:
    """First the preparing subtask, in order; then others, in any order."""
    in_order = sorted(prepared)
    own = data.draw(st.integers(0, len(in_order)))
    page = Page()
    for epoch in in_order[:own]:
        assert not page.has(epoch)
        page = stored(page.with_own(epoch))
    rest = data.draw(st.permutations(in_order[own:]))
    for number, epoch in enumerate(rest):
        assert not page.has(epoch)
        page = stored(page.with_other(epoch))
        assert all(page.has(done) for done in (*in_order[:own], *rest[: number + 1]))
        assert not any(page.has(left) for left in rest[number + 1 :])


def test_the_preparing_subtask_may_go_on_after_others_have_delivered_some() -> None:
    page = Page(2).with_other(5).with_own(4)
    assert [epoch for epoch in range(1, 8) if page.has(epoch)] == [1, 2, 3, 4, 5]
    assert page.with_own(5) == Page(5)


def test_a_page_that_is_not_there_is_empty() -> None:
    assert Page.parse(-1001, None, "page") == Page()


def test_what_cannot_be_understood_is_refused() -> None:
    with pytest.raises(SinkError, match="in format 2, which a newer Mainstay"):
        Page.parse(3, '{"format": 2}', "page")
    for metadata in (None, "", "17", '{"format": 1}'):
        with pytest.raises(SinkError, match="somebody else has committed to it"):
            Page.parse(3, metadata, "page")


def test_the_stored_form_does_not_change() -> None:
    page = Page(7, frozenset({12, 9}))
    assert (page.upto, page.to_metadata()) == (7, '{"format":1,"also":[9,12]}')


@dataclass
class FakeError:
    code_name: str

    def name(self) -> str:
        return self.code_name

    def str(self) -> str:
        return "so it is"


def test_what_waiting_heals_is_waited_for_and_what_it_does_not_is_told() -> None:
    away = meaning(FakeError("_TRANSPORT"), "it cannot be read", SinkError)
    assert isinstance(away, UnavailableError)
    refused = meaning(FakeError("TOPIC_AUTHORIZATION_FAILED"), "it cannot be read", SinkError)
    assert isinstance(refused, SinkError)
    assert "Grant this client the right to the topic" in str(refused)


def test_a_call_that_times_out_for_a_wrong_password_says_so() -> None:
    noted = Noted()
    noted(FakeError("_ALL_BROKERS_DOWN"))
    assert isinstance(meaning(FakeError("_TIMED_OUT"), "x", SinkError, noted), UnavailableError)
    noted(FakeError("_AUTHENTICATION"))
    told = meaning(FakeError("_TIMED_OUT"), "it cannot be read", SinkError, noted)
    assert isinstance(told, SinkError)
    assert "Correct the credentials" in str(told)


def test_the_settings_of_a_client_do_not_show_its_password() -> None:
    settings = KafkaSettings.checked("a test", "host:9092", {"sasl.password": "secret"}, ())
    assert "secret" not in repr(settings)
    assert "host:9092" in repr(settings)
