"""The way of a running server from one schedule to another: every stage serves every robot."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rosa_contract.config.factory import Factory, parse_factory
from rosa_contract.errors import ConfigError
from rosa_server.plan.admission import Admitted, NoAdmission
from rosa_server.plan.change import Change
from rosa_server.plan.placement import Placement
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import hand_over, placement_of
from rosa_server.scheduler.running.rescheduling import RescheduleError, Rescheduler, with_slots_of
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import LIBRARY

FACTORY = """
server_cluster: {num_servers: 12, gpu_type: NVIDIA H200}
robot_fleet: [{task: kit, num_robots: 16}, {task: sort, num_robots: 4}]
kit:
  pipeline: {action_period_ms: 200, system2_to_system1_call_ratio: 0.1}
  components:
    system1: {model: nvidia/GR00T-N1.6-3B, slo_ms: 200}
    system2: {model: Qwen2.5-VL-7B-Instruct, slo_ms: 2000}
    safety: {model: Qwen2.5-VL-3B-Instruct, slo_ms: 500, freq_hz: 2}
sort:
  pipeline: {action_period_ms: 200}
  components:
    system1: {model: nvidia/GR00T-N1.6-3B, slo_ms: 200}
"""
FLEET = {"kit": 16, "sort": 4}


@cache
def factory() -> Factory:
    return parse_factory(FACTORY)


@cache
def solved(servers: int, kit: int = 16, sort: int = 4, standby: int = 0) -> Schedule:
    problem = problem_from(factory()).with_robots({"kit": kit, "sort": sort}).with_servers(servers)
    schedule = solve(problem, LIBRARY, Options(standby=standby))
    assert schedule.feasible, schedule.reasons
    return schedule


def written(schedule: Schedule, folder: Path) -> str:
    path = folder / "new.json"
    path.write_text(json.dumps(schedule.to_dict()))
    return str(path)


def change(
    old: Schedule, new: Schedule, folder: Path, taken: Collection[str] | None = None
) -> tuple[Placement, Change]:
    """From what runs to the change, with every slot taken unless others are named."""
    placement, admission = hand_over(factory(), old, "old", LIBRARY)
    planner = Rescheduler(factory(), LIBRARY, old, admission)
    here = old.routing.keys() if taken is None else taken
    return placement, planner.prepare(placement, here)(written(new, folder))


def walked(placement: Placement, made: Change, taken: Collection[str]) -> Placement:
    """What holds at every stage, whatever the schedules; the last placement."""
    warm = set(placement.replicas)
    for stage in made.stages:
        now = stage.placement
        assert set(now.replicas) == (warm | set(stage.starts)) - set(stage.stops), stage.words
        assert not set(stage.starts) & warm, "what runs is not started"
        routes, before = now.routes or {}, placement.routes or {}
        assert set(taken) <= routes.keys(), "every robot keeps its slot"
        for slot, components in routes.items():
            for component, replica in components.items():
                assert replica in warm - set(stage.stops), f"{stage.words}: {slot} is routed to {replica}"
                stays = slot not in before or before[slot][component] == replica
                assert stays or stage.moves or stage is made.stages[-1], f"{stage.words}: {slot} moves"
        for replica, standbys in now.standbys.items():
            assert {replica, *standbys} <= now.replicas.keys()
        warm, placement = set(now.replicas), now
    return placement


@pytest.mark.parametrize(("few", "many"), [((6, 0), (9, 0)), ((6, 0), (8, 1))])
def test_every_stage_has_a_warm_server_for_every_stream_up_and_down(
    few: tuple[int, int], many: tuple[int, int], tmp_path: Path
) -> None:
    old, new = solved(few[0], standby=few[1]), solved(many[0], standby=many[1])
    placement, up = change(old, new, tmp_path)
    after = walked(placement, up, old.routing)
    assert {one.server for one in after.replicas.values()} == {
        server.id for server in up.stages[-1].after.servers
    }
    assert up.about["servers"] == many[0] and len(after.replicas) > len(placement.replicas)
    placement, down = change(new, old, tmp_path)
    walked(placement, down, new.routing)
    assert any(stage.stops for stage in down.stages)
    assert not any(stage.starts for stage in down.stages if not few[1])


def test_models_are_loaded_side_by_side_before_anybody_moves(tmp_path: Path) -> None:
    _, made = change(solved(6), solved(9), tmp_path)
    first, second, *_ = made.stages
    assert len(first.starts) == 3 and not first.moves and second.moves


def test_robots_that_were_admitted_keep_their_slots_and_are_planned_from_then_on(tmp_path: Path) -> None:
    old = solved(6)
    _placement, admission = hand_over(factory(), old, "old", LIBRARY)
    came = admission.admit("kit")
    assert isinstance(came, Admitted)
    planner = Rescheduler(factory(), LIBRARY, old, admission)
    taken = (came.placement.routes or {}).keys()
    made = planner.prepare(came.placement, taken)(written(solved(8, kit=17), tmp_path))
    last = walked(came.placement, made, taken)
    assert came.slot in (last.routes or {}) and isinstance(made.admission.admit("sort"), Admitted)
    planner.reached(made.stages[-1], made.admission)
    assert planner.running.routing.keys() == taken | {f"sort/{n}" for n in range(5)}


def test_slots_keep_their_names_and_those_of_robots_come_first() -> None:
    old, new = solved(6), solved(6, kit=3, sort=6)
    renamed = with_slots_of(old, new, {"kit/7", "sort/0", "sort/3"})
    assert set(renamed.routing) == {"kit/0", "kit/1", "kit/7", *(f"sort/{n}" for n in range(6))}
    assert sorted(map(str, renamed.routing.values())) == sorted(map(str, new.routing.values()))


def refused(old: Schedule, new: Schedule, folder: Path, **more: Any) -> str:
    with pytest.raises(RescheduleError) as caught:
        change(old, new, folder, **more)
    return caught.value.cause


def test_what_would_take_a_robots_slot_or_its_server_is_refused(tmp_path: Path) -> None:
    assert refused(solved(6), solved(6, kit=15), tmp_path) == "robots_left_over"
    _, made = change(solved(6), solved(6, kit=15), tmp_path, [f"kit/{n}" for n in range(15)])
    assert "kit/15" not in (made.stages[0].placement.routes or {}), "nobody has it"


def test_a_schedule_that_holds_only_as_it_was_played_through_is_no_beginning_and_no_end(
    tmp_path: Path,
) -> None:
    played = replace(solved(9), options={"slo_statistic": "p95", "any_arrivals": False})
    assert refused(played, solved(6), tmp_path) == "as_played"
    assert refused(solved(6), played, tmp_path) == "as_played"


def test_a_file_that_is_no_schedule_of_this_factory_is_refused(tmp_path: Path) -> None:
    placement, admission = hand_over(factory(), solved(6), "old", LIBRARY)
    plan = Rescheduler(factory(), LIBRARY, solved(6), admission).prepare(placement, ())
    with pytest.raises(ConfigError, match="cannot be read"):
        plan(str(tmp_path / "none.json"))
    other = replace(solved(6), gpu_type="NVIDIA H100")
    with pytest.raises(ConfigError, match="gpu_type"):
        plan(written(other, tmp_path))


def test_what_would_take_a_server_from_streams_before_another_is_warm_is_refused(tmp_path: Path) -> None:
    """The file names another model for a component than the running server was started with, and no GPU is free."""
    new = solved(6)
    small = replace(factory(), server_cluster=replace(factory().server_cluster, num_servers=6))
    was = {"Qwen2.5-VL-3B-Instruct": "another"}
    servers = (replace(one, models=tuple(was.get(m, m) for m in one.models)) for one in new.servers)
    old = replace(new, servers=tuple(servers))
    planner = Rescheduler(small, LIBRARY, old, NoAdmission("none"))
    with pytest.raises(RescheduleError) as caught:
        planner.prepare(placement_of(old), old.routing.keys())(written(new, tmp_path))
    assert caught.value.cause == "would_interrupt" and "no GPU is free" in str(caught.value)


@pytest.mark.parametrize("cause", ["other_engine", "other_role"])
def test_a_server_that_stays_keeps_its_engine_and_its_role(cause: str, tmp_path: Path) -> None:
    old = solved(6)
    placement, admission = hand_over(factory(), old, "old", LIBRARY)
    name, one = next(iter(placement.replicas.items()))
    if cause == "other_engine":
        changed = {**placement.replicas, name: replace(one, engine="kv_sharing")}
    else:  # it stands by
        rest = {key: each for key, each in placement.replicas.items() if key != name}
        changed = {**rest, f"{name}/{one.model}": replace(one, id=f"{name}/{one.model}", standby=True)}
    planner = Rescheduler(factory(), LIBRARY, old, admission)
    with pytest.raises(RescheduleError) as caught:
        planner.prepare(replace(placement, replicas=changed), old.routing.keys())(written(old, tmp_path))
    assert caught.value.cause == cause and one.server in str(caught.value)


def test_a_rescheduling_that_ended_midway_is_the_next_ones_beginning(tmp_path: Path) -> None:
    old, new = solved(6), solved(9)
    placement, admission = hand_over(factory(), old, "old", LIBRARY)
    planner = Rescheduler(factory(), LIBRARY, old, admission)
    made = planner.prepare(placement, old.routing.keys())(written(new, tmp_path))
    moved = next(stage for stage in made.stages if stage.moves)
    planner.reached(moved, NoAdmission("it ended midway"))
    back = planner.prepare(moved.placement, old.routing.keys())(written(old, tmp_path))
    last = walked(moved.placement, back, old.routing)
    assert {one.model for one in last.replicas.values()} == {one.model for one in placement.replicas.values()}
    assert len(last.replicas) == len(placement.replicas)
