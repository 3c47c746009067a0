"""The factories in which plans once did not come true: what is run, and when an aim holds."""

from __future__ import annotations

from typing import Any

from benchmarks.fleet.cases import CASES, HERE, NETWORKS, aims_of, plan_of
from rosa_contract.config.factory import load_factory
from rosa_server.scheduler.profiles.library import ProfileLibrary


def row(**changes: Any) -> dict[str, Any]:
    known = {"scenario": "factory_20", "robots": 16, "what": "local", "start": "random", "refused": ""}
    return {
        **known,
        "planned_hz": 30.0,
        "predicted_hz": 60.0,
        "executed_hz": 60.0,
        "meet": {"system1": 1.0},
        **changes,
    }


def test_each_case_is_run_from_both_starts_on_every_network() -> None:
    heads = [tuple(head.values()) for head, _ in plan_of(1, 1.0)]
    assert len(set(heads)) == len(heads) == 2 * len(NETWORKS) * len(CASES)


def test_every_model_of_a_case_has_its_profile_beside_it() -> None:
    library = ProfileLibrary(HERE / "profiles")
    for path in HERE.glob("*.yaml"):
        factory = load_factory(path)
        for task in factory.tasks.values():
            for name, part in task.components.items():
                assert library.get_for(part.model, name, factory.server_cluster.gpu_type).configurations


def test_an_aim_holds_where_nothing_misses_it() -> None:
    assert all(aim["holds"] for aim in aims_of([row(), row(start="together", executed_hz=61.5)]))


def test_each_aim_names_what_misses_it() -> None:
    slow = row(executed_hz=25.0, meet={"system1": 1.0, "safety": 0.98})
    refused = {
        "scenario": "mix4",
        "robots": 1000,
        "what": "local",
        "start": "random",
        "refused": "too few servers",
    }
    assert [aim["value"] for aim in aims_of([row(), slow, refused])] == [
        "2 of 3, not mix4 with 1000 robots, local, random",
        *["1 of 2, not factory_20 with 16 robots, local, random"] * 3,
    ]
    assert not any(aim["holds"] for aim in aims_of([row(), slow, refused]))


def test_robots_that_join_were_not_predicted() -> None:
    joined = row(what="local, 4 robots join", executed_hz=50.0)
    assert aims_of([row(), joined])[1]["holds"]
