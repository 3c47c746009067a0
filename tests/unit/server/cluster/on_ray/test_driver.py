"""The process that talks to Ray, with a Ray that keeps names as the real one does: a name that is taken is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rosa_server.cluster.on_ray import driver
from rosa_server.cluster.on_ray.actor import describe, python_version
from rosa_server.cluster.on_ray.driver import LOOK_EVERY_S, Driver
from rosa_server.serving.base.release import release

NODE = {"NodeID": "n1", "NodeManagerAddress": "127.0.0.1", "Alive": True, "Resources": {"GPU": 1}}
ABOUT = {"python": python_version(), "ray": "1", "release": release(), "missing": []}
ORDER = {
    "server": "ab12",
    "address": "127.0.0.1:1",
    "parts": [{"name": "gpu0", "gpus": 1, "files": [], "protects": []}],
}


class Group:
    """A reservation."""

    def __init__(self, name: str) -> None:
        self.name = name

    def wait(self, seconds: float) -> bool:
        return True


class Answer:
    """One that has come."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Actor:
    """Answers at once. `runs`: the workers that it has."""

    def __init__(self) -> None:
        self.runs: dict[str, tuple[int | None, str]] = {}
        for name in ("start", "look", "kill", "end"):
            setattr(self, name, SimpleNamespace(remote=getattr(self, f"_{name}")))

    def _start(self, spec: dict[str, Any]) -> Any:
        self.runs[spec["worker_id"]] = (None, "")
        return Answer("")

    def _look(self) -> Any:
        return Answer(dict(self.runs))

    def _kill(self, worker_id: str) -> None: ...

    def _end(self, grace_s: float) -> Any:
        return Answer(None)


class Ray:
    """What outlives a driver: actors and reservations, by name."""

    __version__ = "1"

    def __init__(self) -> None:
        self.actors: dict[str, Actor] = {}
        self.groups: dict[str, Group] = {}
        self.there = [NODE]
        self.others: dict[str, dict[str, Any]] = {}  # nodes that are not as this machine
        strategies = SimpleNamespace(
            NodeAffinitySchedulingStrategy=lambda node, soft: node,
            PlacementGroupSchedulingStrategy=lambda *_: None,
        )
        self.util = SimpleNamespace(
            get_node_ip_address=lambda: "127.0.0.1",
            scheduling_strategies=strategies,
            placement_group=self._reserve,
            placement_group_table=lambda group: {"name": group.name},
            get_placement_group=lambda name: self._named(self.groups, name),
            remove_placement_group=lambda group: self.groups.pop(group.name),
        )

    def nodes(self) -> list[dict[str, Any]]:
        return self.there

    def remote(self, what: Any) -> Any:
        made = self._described if what is describe else self._actor
        return SimpleNamespace(options=lambda **how: SimpleNamespace(remote=lambda *told: made(how)))

    def wait(self, asked: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return asked, []

    def get(self, answer: Answer) -> Any:
        return answer.value

    def get_actor(self, name: str) -> Actor:
        return self._named(self.actors, name)

    def kill(self, actor: Actor, no_restart: bool) -> None:
        self.actors = {name: one for name, one in self.actors.items() if one is not actor}

    def shutdown(self) -> None: ...

    def _described(self, how: dict[str, Any]) -> Any:
        return Answer({**ABOUT, **self.others.get(how["scheduling_strategy"], {})})

    def _actor(self, how: dict[str, Any]) -> Actor:
        if how["name"] in self.actors:
            raise ValueError(f"the name {how['name']} is already taken")
        made = self.actors[how["name"]] = Actor()
        return made

    def _reserve(self, bundles: Any, name: str, **_: Any) -> Group:
        if name in self.groups:
            raise RuntimeError(f"{name} already exists")
        if sum(bundle.get("GPU", 0) for bundle in bundles) + len(self.groups) > 1:
            raise RuntimeError("the GPU is reserved")
        made = self.groups[name] = Group(name)
        return made

    def _named(self, known: dict[str, Any], name: str) -> Any:
        if name not in known:
            raise ValueError(f"nothing is named {name}")
        return known[name]


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    made = Ray()
    monkeypatch.setattr(driver, "connect", lambda address: made)
    return made


@pytest.fixture
def next_one(ray: Ray) -> Callable[..., Driver]:
    """Another driver: the first places all, a later one takes over what `last` has left."""

    def begin(last: Driver | None = None, *workers: str) -> Driver:
        made = Driver(ORDER)
        if last is None:
            made.place_all()
        else:
            made.adopt({name: {**at, "workers": workers} for name, at in last.where().items()})
        return made

    return begin


def test_what_is_placed_is_known_by_name_and_given_back(ray: Ray, next_one: Callable[..., Driver]) -> None:
    placed = next_one()
    assert ray.actors.keys() == ray.groups.keys() == {one["name"] for one in placed.where().values()}
    placed.end(0.0)
    assert not ray.actors and not ray.groups


@pytest.mark.parametrize("noticed", ["by the next driver", "later"])
def test_a_part_whose_actor_is_lost_is_placed_anew_by_the_next_driver(
    ray: Ray, next_one: Callable[..., Driver], noticed: str
) -> None:
    first = next_one()
    if noticed == "later":
        second = next_one(first)
    ray.actors.clear()
    if noticed == "by the next driver":
        second = next_one(first)
    second._placed["gpu0"].actor = None  # as when a look is not answered
    assert second.start("gpu0", {"worker_id": "policy/0.2"}), "by another actor"
    assert len(ray.groups) == 1, "what was reserved before is given back"
    assert second.where()["gpu0"]["name"] != first.where()["gpu0"]["name"]
    assert ray.actors.keys() == ray.groups.keys()


@pytest.mark.parametrize("lost", [False, True], ids=["the actor lives", "the actor is lost"])
def test_a_worker_that_its_actor_never_heard_of_counts_as_ended(
    ray: Ray, next_one: Callable[..., Driver], lost: bool
) -> None:
    first = next_one()
    if lost:
        ray.actors.clear()
    second = next_one(first, "policy/0.1")
    assert second.start("gpu0", {"worker_id": "policy/1.1"}) == lost
    now_s, ends = second._placed["gpu0"].answered_s, []
    for _ in range(8):
        now_s += LOOK_EVERY_S
        ends += [one["worker_id"] for one in second.step(now_s) if one["event"] == "ended"]
    assert ends == ["policy/0.1"]


def test_a_worker_that_starts_while_its_actor_is_looked_at_has_not_ended(
    ray: Ray, next_one: Callable[..., Driver]
) -> None:
    placed = next_one()
    looks = placed._placed["gpu0"].answered_s + LOOK_EVERY_S
    placed.step(looks)  # asks
    placed.start("gpu0", {"worker_id": "policy/0.1"})
    placed._placed["gpu0"].looking = Answer({})  # it was asked before
    assert placed.step(looks) == placed.step(2 * looks) == placed.step(2 * looks) == []


def test_a_node_that_cannot_run_rosa_keeps_no_other_from_being_used(
    ray: Ray, next_one: Callable[..., Driver]
) -> None:
    placed = next_one()
    ray.there = [{**NODE, "NodeID": name} for name in ("n2", "n3", "n4")]  # n1 is lost
    ray.others = {"n2": {"release": "another"}, "n3": {"python": "2.7"}}
    placed._placed["gpu0"].actor = None
    assert placed.start("gpu0", {"worker_id": "policy/0.2"})
    assert placed.where()["gpu0"]["node"] == "n4"
