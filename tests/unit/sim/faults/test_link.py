"""A bad link does to messages what its name says, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from rosa_sim.faults.link import DOWN, KINDS, UP, BadLink, LinkFault, LinkFaultError, flipped

ROBOT = b"robot"


def passed(link: BadLink, messages: int = 20, direction: str = UP) -> list[tuple[float, bytes]]:
    """Send numbered messages 10 ms apart; (when it left, first frame) of each that came through."""
    out = []
    for number in range(messages):
        link.take(number * 0.01, direction, ROBOT, [b"%d" % number])
        out += [(number * 0.01, parcel.frames[0]) for parcel in link.due(number * 0.01)]
    while (due_s := link.next_due_s()) is not None:
        out += [(due_s, parcel.frames[0]) for parcel in link.due(due_s)]
    return out


def test_a_good_link_passes_everything_at_once_and_in_order() -> None:
    assert passed(BadLink()) == [(n * 0.01, b"%d" % n) for n in range(20)]


def test_a_dropping_link_loses_its_share() -> None:
    link = BadLink()
    link.begin(LinkFault("drop", 0.5))
    assert 350 < len(passed(link, 1000)) < 650
    link.begin(LinkFault("drop", 1.0))
    assert passed(link) == []


def test_a_late_link_delivers_in_order_after_its_delay() -> None:
    link = BadLink()
    link.begin(LinkFault("delay", seconds=0.4))
    times = passed(link)
    assert [body for _, body in times] == [b"%d" % n for n in range(20)]
    assert all(left_s == pytest.approx(n * 0.01 + 0.4) for n, (left_s, _) in enumerate(times))


def test_a_jittery_link_loses_nothing_and_overtakes() -> None:
    link = BadLink(seed=1)
    link.begin(LinkFault("jitter", seconds=0.1))
    bodies = [body for _, body in passed(link)]
    assert sorted(bodies, key=int) == [b"%d" % n for n in range(20)]
    assert bodies != sorted(bodies, key=int)


def test_a_duplicating_link_gives_every_message_twice() -> None:
    link = BadLink()
    link.begin(LinkFault("duplicate"))
    assert Counter(body for _, body in passed(link)) == {b"%d" % n: 2 for n in range(20)}


def test_a_reordering_link_swaps_neighbours_and_keeps_the_last_no_longer_than_it_may() -> None:
    link = BadLink()
    link.begin(LinkFault("reorder", seconds=0.08))
    assert passed(link, 5) == [
        (0.01, b"1"),
        (0.01, b"0"),
        (0.03, b"3"),
        (0.03, b"2"),
        (pytest.approx(0.12), b"4"),
    ]


@pytest.mark.parametrize(("kind", "cut", "whole"), [("partition_up", UP, DOWN), ("partition_down", DOWN, UP)])
def test_a_partition_is_of_one_direction(kind: str, cut: str, whole: str) -> None:
    link = BadLink()
    link.begin(LinkFault(kind))
    assert passed(link, direction=cut) == []
    assert len(passed(link, direction=whole)) == 20


def test_a_corrupting_link_changes_bytes_of_one_frame_and_not_its_length() -> None:
    frames = [b"header-header", b"", b"picture" * 100]
    hit = Counter[int]()
    for seed in range(200):
        changed = flipped(frames, random.Random(seed))
        different = [index for index, frame in enumerate(frames) if changed[index] != frame]
        assert [len(frame) for frame in changed] == [len(frame) for frame in frames]
        assert len(different) == 1
        hit[different[0]] += 1
    assert set(hit) == {0, 2}, "short headers are hit as often as long pictures; an empty frame cannot be"
    assert min(hit.values()) > 60


def test_lifting_a_fault_does_not_hurry_what_is_on_its_way() -> None:
    link = BadLink()
    link.begin(LinkFault("delay", seconds=0.4))
    link.take(0.0, UP, ROBOT, [b"late"])
    link.begin(LinkFault())
    link.take(0.1, UP, ROBOT, [b"now"])
    assert [parcel.frames[0] for parcel in link.due(0.1)] == [b"now"]
    assert [parcel.frames[0] for parcel in link.due(0.4)] == [b"late"]


def test_the_same_seed_takes_the_same_chances() -> None:
    def run(seed: int) -> list[tuple[float, bytes]]:
        link = BadLink(seed)
        link.begin(LinkFault("drop", 0.5))
        return passed(link, 100)

    assert run(3) == run(3)
    assert run(3) != run(4)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"kind": "dorp"}, "kind"),
        ({"kind": "drop", "probability": 2}, "probability"),
        ({"seconds": -1}, "seconds"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(LinkFaultError, match=f"^{named}: expected"):
        LinkFault(**wrong)


def test_every_kind_can_be_begun() -> None:
    link = BadLink()
    for kind in KINDS:
        link.begin(LinkFault(kind))
        link.take(0.0, UP, ROBOT, [b"x"])
