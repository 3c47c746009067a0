"""The bookkeeping that RViz relies on: numbers without gaps, nothing sent twice, entries that keep their meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_client.operator import marker_book
from rosa_client.operator.marker_book import MarkerBook, MenuEntries


def test_what_did_not_change_is_not_sent() -> None:
    book: MarkerBook[str] = MarkerBook()
    first = book.change({"a": "1", "b": "1"})
    assert first is not None
    assert (first.number, first.changed, first.erased) == (1, {"a": "1", "b": "1"}, [])
    assert book.change({"a": "1", "b": "1"}) is None
    second = book.change({"a": "2", "b": "1"})
    assert second is not None
    assert (second.number, second.changed, second.erased) == (2, {"a": "2"}, [])
    third = book.change({"b": "1"})
    assert third is not None
    assert (third.number, third.changed, third.erased) == (3, {}, ["a"])


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3), max_size=30))
def test_a_client_that_follows_the_updates_sees_what_the_service_answers(
    states: list[dict[str, int]],
) -> None:
    book: MarkerBook[int] = MarkerBook()
    seen: dict[str, int] = {}
    number = 0
    for state in states:
        update = book.change(state)
        if update is not None:
            assert update.number == number + 1, "a gap makes RViz start anew"
            number = update.number
            seen |= update.changed
            for name in update.erased:
                del seen[name]
        assert seen == book.markers == state
        assert number == book.number


def test_a_menu_entry_keeps_its_meaning() -> None:
    entries = MenuEntries(fixed=("stop",))
    resume = entries.number("/panda0", "decide/1/resume")
    later = entries.number("/panda0", "decide/2/resume")
    assert len({0, resume, later, entries.number("/panda1", "decide/1/resume")}) == 4
    assert entries.number("/panda0", "decide/1/resume") == resume
    assert entries.meaning("/panda0", resume) == "decide/1/resume", "also when the next alert is open"


def test_an_entry_of_another_robots_menu_is_refused() -> None:
    entries = MenuEntries()
    number = entries.number("/panda0", "decide/1/resume")
    with pytest.raises(ValueError, match="not known"):
        entries.meaning("/panda1", number)
    with pytest.raises(ValueError, match="not known"):
        entries.meaning("/panda0", 77)


def test_the_emergency_stop_is_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_book, "KEPT_ENTRIES", 5)
    entries = MenuEntries(fixed=("stop",))
    stop = entries.number("/panda0", "stop")
    first = entries.number("/panda0", "decide/0/resume")
    for alert in range(1, 20):
        entries.number("/panda0", f"decide/{alert}/resume")
    assert entries.meaning("/panda0", stop) == entries.meaning("/panda1", stop) == "stop"
    with pytest.raises(ValueError, match="not known"):
        entries.meaning("/panda0", first)
