"""Each part of a schedule finds a node that has its files and room, or one sentence says why not."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.cluster.on_ray.mapping import Node, Part, RayError, check_closed, check_versions, place


def node(name: str, gpus: int = 1, missing: tuple[str, ...] = ()) -> Node:
    return Node(name, f"10.0.0.{name}", gpus, frozenset(missing))


def test_a_part_goes_where_its_files_are_and_makes_others_go_elsewhere() -> None:
    nodes = [node("1"), node("2", missing=("pi0",))]
    parts = [Part("any", 1), Part("pi0", 1, ("pi0",))]
    assert place(parts, nodes) == {"pi0": "1", "any": "2"}


def test_a_part_that_came_earlier_moves_on_where_only_that_makes_room() -> None:
    nodes = [node("1", missing=("b", "c")), node("2", missing=("c",)), node("3")]
    parts = [Part("a", 1, ("a",)), Part("b", 1, ("b",)), Part("c", 1, ("c",))]
    assert place(parts, nodes) == {"a": "1", "b": "2", "c": "3"}


def test_a_standby_is_not_beside_what_it_stands_in_for() -> None:
    nodes = [node("1", gpus=3), node("2", gpus=1)]
    parts = [Part("standby", 1, protects=frozenset({"gpu0", "gpu1"})), Part("gpu0", 1), Part("gpu1", 1)]
    where = place(parts[:2], nodes)
    assert where["standby"] != where["gpu0"]
    cpu = [node("1", gpus=0), node("2", gpus=0)]
    where = place([Part("standby", protects=frozenset({"gpu0"})), Part("gpu0")], cpu)
    assert where["standby"] != where["gpu0"]


def test_parts_without_gpus_are_spread() -> None:
    where = place([Part(f"policy/{i}") for i in range(4)], [node("1", gpus=0), node("2", gpus=0)])
    assert sorted(where.values()) == ["1", "1", "2", "2"]


@pytest.mark.parametrize(
    ("parts", "nodes", "cause", "words"),
    [
        ([Part("a", 1), Part("b", 1)], [node("1")], "too_few_gpus", "needs 2 GPUs and the 1 nodes have 1"),
        ([Part("a")], [], "too_few_gpus", "0 nodes"),
        (
            [Part("a", 1, ("/w/pi0",))],
            [node("1", missing=("/w/pi0",)), node("2", missing=("/w/pi0",))],
            "weights_missing",
            "10.0.0.1 lacks /w/pi0",
        ),
    ],
)
def test_what_cannot_be_placed_is_refused_as_a_whole(
    parts: list[Part], nodes: list[Node], cause: str, words: str
) -> None:
    with pytest.raises(RayError, match=words) as error:
        place(parts, nodes)
    assert error.value.cause == cause


def test_a_part_that_is_placed_again_leaves_the_others_where_they_are_and_avoids_its_node() -> None:
    nodes = [node("1", gpus=2), node("2", gpus=2)]
    parts = [Part("a", 1), Part("b", 1), Part("c", 1)]
    assert place(parts, nodes, {"b": "2", "c": "1"}, frozenset({"1"})) == {"a": "2", "b": "2", "c": "1"}
    with pytest.raises(RayError) as error:
        place(parts, nodes[:1], {"b": "1", "c": "1"})
    assert error.value.cause == "too_few_gpus"


@pytest.mark.parametrize(("what", "other"), [("python", "3.12"), ("ray", "2.9.0"), ("release", "beef")])
def test_a_node_that_is_not_like_this_machine_is_refused_by_name(what: str, other: str) -> None:
    same = {"python": "3.11", "ray": "2.60.0", "release": "cafe"}
    check_versions([Node("1", "10.0.0.1", **same)], **same)
    with pytest.raises(RayError, match=r"10\.0\.0\.2") as error:
        check_versions(
            [Node("1", "10.0.0.1", **same), Node("2", "10.0.0.2", **{**same, what: other})], **same
        )
    assert error.value.cause == "other_version"


def test_nodes_that_other_machines_reach_need_a_token_whatever_address_was_typed() -> None:
    check_closed([Node("1", "127.0.0.1")], token=False)
    check_closed([Node("1", "10.0.0.1")], token=True)
    with pytest.raises(RayError, match=r"the nodes 10\.0\.0\.2 can") as error:
        check_closed([Node("1", "127.0.0.1"), Node("2", "10.0.0.2")], token=False)
    assert error.value.cause == "no_token"


@given(
    st.lists(st.integers(1, 2), min_size=1, max_size=3),
    st.lists(st.sets(st.integers(0, 2)), min_size=1, max_size=4),
)
def test_a_placement_is_found_whenever_there_is_one(gpus: list[int], allowed: list[set[int]]) -> None:
    """Hall's theorem: there is one if no set of parts has fewer GPUs to choose from than it needs."""
    nodes = [
        node(str(i), count, tuple(f"f{k}" for k, on in enumerate(allowed) if i not in on))
        for i, count in enumerate(gpus)
    ]
    parts = [Part(f"p{k}", 1, (f"f{k}",)) for k in range(len(allowed))]
    fits = all(
        sum(gpus[i] for i in set().union(*chosen) if i < len(gpus)) >= len(chosen)
        for size in range(1, len(allowed) + 1)
        for chosen in combinations(allowed, size)
    )
    try:
        where = place(parts, nodes)
    except RayError:
        assert not fits
        return
    assert fits and set(where) == {part.name for part in parts}
    for index, one in enumerate(nodes):
        assert sum(at == one.id for at in where.values()) <= gpus[index]
    assert all(int(where[f"p{k}"]) in on for k, on in enumerate(allowed))


def test_a_part_of_another_lost_node_takes_no_room_on_those_that_are_left() -> None:
    parts = [Part(name, 1) for name in ("p1", "p2", "p3")]
    left = [Node("n3", "10.0.0.3", 1), Node("n4", "10.0.0.4", 1)]
    settled = {"p2": "n2", "p3": "n3"}  # n2 is lost, too
    assert place(parts, left, settled, frozenset({"n1"}))["p1"] == "n4"


def test_a_part_that_runs_makes_no_room_for_one_that_is_placed_again() -> None:
    parts = [Part("p1", 1, ("/w/one",)), Part("p3", 1)]
    left = [Node("n3", "10.0.0.3", 1), Node("n4", "10.0.0.4", 1, frozenset({"/w/one"}))]
    with pytest.raises(RayError) as error:
        place(parts, left, {"p3": "n3"}, frozenset({"n1"}))
    assert error.value.cause == "weights_missing"
