"""What a server gets of a schedule, and which schedules it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rosa_contract.config.factory import Factory, parse_factory
from rosa_contract.errors import ConfigError
from rosa_server.plan.admission import Admitted, NoAdmission
from rosa_server.scheduler.placement.schedule import Schedule, load_schedule, schedule_from
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.deployment import audit
from rosa_server.scheduler.running.handover import RunningSchedule, hand_over, planned_otherwise
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import GR00T, LIBRARY

ROOT = Path(__file__).resolve().parents[5]
FACTORY = """
server_cluster: {num_servers: 6, gpu_type: NVIDIA H200}
robot_fleet: [{task: kit, num_robots: 4}]
kit:
  pipeline: {action_period_ms: 200, system2_to_system1_call_ratio: 0.1}
  components:
    system1: {model: nvidia/GR00T-N1.6-3B, slo_ms: 200}
    system2: {model: Qwen2.5-VL-7B-Instruct, slo_ms: 2000}
    safety: {model: Qwen2.5-VL-3B-Instruct, slo_ms: 500, freq_hz: 2}
    monitor: {model: Qwen2.5-VL-7B-Instruct, slo_ms: 2000, freq_hz: 0.5}
models:
  nvidia/GR00T-N1.6-3B: {backend: emulated, max_batch: 16}
"""


def factory() -> Factory:
    return parse_factory(FACTORY)


@cache
def solved(options: Options) -> Schedule:
    schedule = solve(problem_from(factory()), LIBRARY, options)
    assert schedule.feasible, schedule.reasons
    return schedule


def plan(**changes: Any) -> dict[str, Any]:
    """A plan with one standby as it stands in a file, and with other top-level keys."""
    written: dict[str, Any] = json.loads(json.dumps(solved(Options(standby=1)).to_dict()))
    return {**written, **changes}


def problems(document: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        hand_over(factory(), schedule_from(document, "plan.json"), "plan.json", LIBRARY)
    return "\n".join(map(str, caught.value.problems))


def test_other_numbers_of_robots_than_were_planned_are_told() -> None:
    schedule = schedule_from(plan())
    assert planned_otherwise(factory(), schedule) == []
    more = replace(factory(), robot_fleet=(replace(factory().robot_fleet[0], num_robots=6),))
    assert planned_otherwise(more, schedule) == ["planned for 4 robots on kit, robot_fleet has 6"]


def test_every_server_is_a_host_and_a_standby_one_per_model() -> None:
    schedule = schedule_from(plan())
    placement, _ = hand_over(factory(), schedule, "plan.json", LIBRARY)
    active = [server for server in schedule.servers if not server.standby]
    (spare,) = [server for server in schedule.servers if server.standby]
    assert {replica.id for replica in placement.replicas.values() if not replica.standby} == {
        server.id for server in active
    }
    assert {
        (replica.model, replica.server) for replica in placement.replicas.values() if replica.standby
    } == {(model, "standby0") for model in spare.models}
    for server in active:
        (standby,) = placement.standbys[server.id]
        assert placement.replicas[standby].model == server.model
        assert placement.replicas[server.id].batch == server.batch
    assert placement.rates_hz["kit"]["safety"] == 2


def test_what_is_written_is_what_is_read_to_the_last_digit(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(solved(Options(standby=1)).to_dict()))
    _, admission = hand_over(factory(), load_schedule(path), str(path), LIBRARY)
    assert isinstance(admission, RunningSchedule), "a rounded rate would break an SLO here"
    assert admission.deployment.schedule.rates_hz == solved(Options(standby=1)).rates_hz


def test_the_options_that_a_plan_was_made_with_hold_for_admission_too() -> None:
    options = Options(dynamic_batching=True, network_ms=5.0)
    _, admission = hand_over(factory(), schedule_from(solved(options).to_dict()), "plan.json", LIBRARY)
    assert isinstance(admission, RunningSchedule)
    assert admission.deployment.catalog.options == options


def test_an_admitted_robot_that_leaves_takes_its_load_with_it() -> None:
    _, admission = hand_over(factory(), schedule_from(plan()), "plan.json", LIBRARY)
    assert isinstance(admission, RunningSchedule)
    before = admission.deployment
    answer = admission.admit("kit")
    assert isinstance(answer, Admitted), answer
    assert answer.slot in (answer.placement.routes or {})
    assert audit(admission.deployment) == []
    after = admission.leave(answer.slot)
    assert answer.slot not in (after.routes or {})
    assert admission.deployment.problem.robots == before.problem.robots
    assert admission.deployment.schedule.servers == before.schedule.servers
    assert audit(admission.deployment) == []


def test_an_admission_that_is_taken_back_at_once_changes_no_rate_and_no_route() -> None:
    before, admission = hand_over(factory(), schedule_from(plan()), "plan.json", LIBRARY)
    assert isinstance(admission, RunningSchedule)
    for _ in range(200):
        answer = admission.admit("kit")
        assert isinstance(answer, Admitted), "rates have to fall before there is no room at all"
        if answer.placement.rates_hz != before.rates_hz:
            break
        before = answer.placement
    assert isinstance(answer, Admitted)
    assert admission.leave(answer.slot) == before


def test_a_server_that_nobody_uses_yet_is_there_for_who_comes() -> None:
    larger = replace(factory(), server_cluster=replace(factory().server_cluster, num_servers=20))
    idle = [
        {**server, "id": f"idle-{server['id']}", "streams": {}}
        for server in plan()["servers"]
        if not server.get("standby")
    ]
    document = plan(servers=[*plan()["servers"], *idle])
    placement, admission = hand_over(larger, schedule_from(document, "plan.json"), "plan.json", LIBRARY)
    assert isinstance(admission, RunningSchedule)
    assert audit(admission.deployment) == []
    assert set(placement.replicas) >= {server["id"] for server in idle}
    assert isinstance(admission.admit("kit"), Admitted)
    assert audit(admission.deployment) == []


def test_without_profiles_the_plan_is_served_and_nobody_else_admitted(tmp_path: Path) -> None:
    _, admission = hand_over(factory(), schedule_from(plan()), "plan.json", ProfileLibrary(tmp_path))
    assert isinstance(admission, NoAdmission)
    assert "no profiles to judge by" in str(admission.admit("kit"))


def test_a_plan_that_the_profiles_no_longer_allow_admits_nobody() -> None:
    gr00t = LIBRARY.get(GR00T, "NVIDIA H200")
    slower = tuple(
        replace(
            one, latency=tuple(replace(p, p99_ms=p.p99_ms * 2, p99_9_ms=p.p99_9_ms * 2) for p in one.latency)
        )
        for one in gr00t.configurations
    )
    library = ProfileLibrary(profiles=[replace(gr00t, configurations=slower)])
    placement, admission = hand_over(factory(), schedule_from(plan()), "plan.json", library)
    assert "the profiles have changed" in str(admission.admit("kit"))
    before, _ = hand_over(factory(), schedule_from(plan()), "plan.json", LIBRARY)
    assert placement == before, "its policies hold as before: service times are the same"
    assert placement.adaptive and placement.phases


def servers(**changes: Any) -> list[dict[str, Any]]:
    first, *rest = plan()["servers"]
    return [{**first, **changes}, *rest]


def routes(**changes: Any) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = plan()["routing"]
    return {**found, "kit/0": {**found["kit/0"], **changes}}


def rates(**changes: float | None) -> dict[str, dict[str, float]]:
    kit = {**plan()["rates_hz"]["kit"], **changes}
    return {"kit": {component: rate for component, rate in kit.items() if rate is not None}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": 2}, "schema: expected 1, got 2"),
        ({"schema": None}, "schema: expected 1, got None"),
        ({"surprise": 1}, "surprise: unknown key"),
        ({"servers": servers(btach=1)}, "servers[0].btach: unknown key (did you mean 'batch'?)"),
        ({"servers": servers(batch=0)}, "servers[0].batch: must be >= 1, got 0"),
        (
            {"servers": servers(batch=64)},
            "servers[0].batch: planned 64, models.nvidia/GR00T-N1.6-3B.max_batch is 16",
        ),
        ({"servers": servers(batching="fixed")}, "servers[0].batching: must be one of static, dynamic"),
        ({"servers": servers(models=["a", "b"])}, "servers[0].models: gpu0 hosts 2 models"),
        ({"servers": servers(models=["Qwen2.5-VL-7B"])}, "(did you mean 'Qwen2.5-VL-7B-Instruct'?)"),
        ({"servers": "none"}, "servers: expected a list"),
        ({"routing": routes(system1="gpu9")}, "routing.kit/0.system1: no server 'gpu9' in this schedule"),
        ({"routing": routes(safety="gpu0")}, "routing.kit/0.safety: gpu0 does not answer safety"),
        ({"routing": {"kit": {}}}, "routing.kit: expected a slot such as task/0"),
        ({"routing": {"kit/0": {}}}, "routing.kit/0.system1: is missing"),
        ({"robots": {"kit": 5}}, "robots.kit: says 5, routing has 4"),
        ({"robots": {"kit": 4, "fold": 1}}, "robots.fold: no such task in the factory file"),
        ({"rates_hz": {}}, "rates_hz.kit.system1: is missing; every component of a task needs a rate"),
        ({"rates_hz": {**rates(), "fold": {}}}, "rates_hz.fold: no task 'fold' in robots"),
        ({"rates_hz": rates(safety=None)}, "rates_hz.kit.safety: is missing"),
        ({"rates_hz": rates(safty=2)}, "safty: task kit has no such component (did you mean 'safety'?)"),
        ({"rates_hz": rates(system1=0)}, "rates_hz.kit.system1: must be > 0, got 0"),
        ({"rates_hz": rates(system1=1e9)}, "planned 1e+09, kit.pipeline allows 5"),
        ({"rates_hz": rates(system2=1)}, "kit.pipeline.system2_to_system1_call_ratio asks for 0.35"),
        ({"servers": servers(streams={"kit/system1": -3})}, "streams.kit/system1: says -3, routing has 2"),
        ({"servers": servers(streams={})}, "servers[0].streams.kit/system1: says 0, routing has 2"),
        ({"servers": servers(p99_ms={})}, "servers[0].p99_ms.system1: is missing"),
        ({"gpu_type": "cpu"}, "gpu_type: planned for 'cpu', server_cluster.gpu_type is 'NVIDIA H200'"),
        (
            {"feasible": False, "reasons": [{"cause": "servers_full", "reason": "safety needs 2 servers"}]},
            "a refusal: safety needs 2 servers",
        ),
        ({"options": {"networkms": 3}}, "options.networkms: unknown key (did you mean 'network_ms'?)"),
    ],
)
def test_a_plan_that_cannot_be_served_is_refused_with_its_path(changes: dict[str, Any], words: str) -> None:
    assert words in problems(plan(**changes))


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ("freq_hz: 2}", "freq_hz: 8}", "rates_hz.kit.safety: planned 2, kit.components.safety.freq_hz is 8"),
        (
            "slo_ms: 500",
            "slo_ms: 40",
            "servers[3].p99_ms.safety: planned 53.5501, kit.components.safety.slo_ms is 40",
        ),
        ("period_ms: 200", "period_ms: 400", "planned 3.51785, kit.pipeline allows 2.5"),
        ("kit:\n", "kit:\n  min_action_rate_hz: 4\n", "planned 3.51785, kit.min_action_rate_hz is 4"),
        ("{task: kit, num_robots: 4}", "{task: fold, num_robots: 4}", "robots.kit: is not in robot_fleet"),
    ],
)
def test_a_factory_file_that_was_changed_after_planning_asks_for_a_new_plan(
    was: str, now: str, words: str
) -> None:
    parts = "{system1: {model: nvidia/GR00T-N1.6-3B, slo_ms: 200}}"
    fold = f"fold: {{pipeline: {{action_period_ms: 200}}, components: {parts}}}"
    assert was in FACTORY
    changed = parse_factory(FACTORY.replace(was, now, 1) + fold)
    with pytest.raises(ConfigError) as caught:
        hand_over(changed, schedule_from(plan()), "plan.json", LIBRARY)
    (problem,) = caught.value.problems
    assert problem.cause == ("unknown_name" if problem.path.startswith("robots") else "conflict")
    assert words in str(problem)
    assert problem.words.endswith("make a new schedule with `rosa plan`")


def test_a_plan_whose_periodic_calls_may_leave_early_is_served() -> None:
    """It is planned with the most calls that there can be: more than `freq_hz`."""
    early = FACTORY.replace("period_ms: 200", "period_ms: 200, share_observation_ms: 100", 1)
    schedule = solve(problem_from(parse_factory(early)), LIBRARY, Options())
    assert schedule.rates_hz["kit"]["safety"] == pytest.approx(2.5)
    hand_over(parse_factory(early), schedule_from(schedule.to_dict()), "plan.json", LIBRARY)
    for was, now, asked_hz in (("ms: 100", "ms: 50", "2.22222"), ("freq_hz: 2}", "freq_hz: 4}", "5")):
        words = rf"rates_hz\.kit\.safety: planned 2\.5, .*safety\.freq_hz and .* ask for {asked_hz};"
        changed = parse_factory(early.replace(was, now, 1))
        with pytest.raises(ConfigError, match=words):
            hand_over(changed, schedule_from(schedule.to_dict()), "plan.json", LIBRARY)


def test_a_plan_keeps_to_the_largest_batch_of_the_factory_file() -> None:
    many = FACTORY.replace("num_robots: 4", "num_robots: 24").replace("num_servers: 6", "num_servers: 8")
    assert max(batches(parse_factory(many))) > 1, "larger ones would be used"
    assert max(batches(parse_factory(many.replace("max_batch: 16", "max_batch: 1")))) == 1


def batches(asked: Factory) -> list[int]:
    """System 1's batches in a plan that this factory serves."""
    schedule = solve(problem_from(asked), LIBRARY, Options())
    hand_over(asked, schedule_from(schedule.to_dict()), "plan.json", LIBRARY)
    return [server.batch for server in schedule.servers if server.components == ("system1",)]


def test_a_largest_batch_that_nobody_profiled_is_named() -> None:
    small = parse_factory(FACTORY + "  Qwen2.5-VL-3B-Instruct: {backend: emulated, max_batch: 8}")
    with pytest.raises(
        ConfigError,
        match=r"models\.Qwen2\.5-VL-3B-Instruct\.max_batch: is 8, but the smallest profiled batch",
    ):
        solve(problem_from(small), LIBRARY)


@pytest.mark.slow
def test_a_server_with_a_schedule_loads_no_solver() -> None:
    code = (
        "import rosa_server.scheduler.running.handover, rosa_server.serving.server, sys; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert "rosa_server.scheduler.running.admission" in done.stdout.split(), done.stderr
    assert not {"ortools", "torch"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("text", "cause", "words"),
    [
        ("", "syntax", "not JSON"),
        ('{"schema": 1, "schema": 1}', "duplicate_key", "duplicate key 'schema'"),
        ('{"schema": 1, "objective": NaN}', "syntax", "NaN is not a number"),
        ('{"schema": 99}', "wrong_version", "make a new one with `rosa plan --json`"),
        ("[" * 100_000, "syntax", "not JSON"),
        ("[1]", "wrong_type", "expected a mapping"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, cause: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as refused:
        load_schedule(path)
    assert [problem.cause for problem in refused.value.problems] == [cause]
    with pytest.raises(ConfigError, match="cannot be read") as refused:
        load_schedule(tmp_path / "none.json")
    assert [problem.cause for problem in refused.value.problems] == ["unreadable"]
