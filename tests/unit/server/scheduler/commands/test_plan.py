"""`rosa plan`, as a factory engineer uses it."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rosa_contract.errors import ConfigError
from rosa_server.commands.parser import run
from rosa_server.scheduler.choosing.candidates import Choice
from rosa_server.scheduler.choosing.choice import choose
from rosa_server.scheduler.commands import patience
from rosa_server.scheduler.commands import plan as plan_command
from rosa_server.scheduler.commands.plan import INFEASIBLE
from rosa_server.scheduler.commands.plan_options import PAPER, SERVERS, UNSUPPORTED
from rosa_server.scheduler.placement.schedule import schedule_from
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from tests.unit.server.scheduler.factories import CONFIGS

FIGURE_3 = str(CONFIGS / "factory.yaml")


@pytest.fixture(scope="module", autouse=True)
def _each_factory_is_searched_once() -> Iterator[None]:
    """Commands that print the same plan otherwise search for it once; all of them with the shipped profiles."""
    found: dict[str, Choice] = {}

    def remembered(problem: Problem, library: ProfileLibrary, options: Options, *rest: Any) -> Choice:
        asked = repr((problem, options, rest[0]))
        if asked not in found:
            found[asked] = choose(problem, library, options, *rest)
        return found[asked]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_command, "choose", remembered)
        yield


def rosa(*words: str) -> int:
    """As the command; what was asked before is said again without a search."""
    status, out, err = said(words)
    sys.stdout.write(out)
    sys.stderr.write(err)
    return status


@cache
def said(words: tuple[str, ...]) -> tuple[int, str, str]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = run(words)
    return status, out.getvalue(), err.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["factory", *(f"paper/{n}" for n in ("p1", "p2", "p3", "p4", "mix2", "mix4"))]
)
def test_every_shipped_factory_plans(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", str(CONFIGS / f"{name}.yaml")) == 0
    printed = capsys.readouterr().out
    assert "actions/s" in printed
    assert "What limits the rates" in printed


@pytest.mark.slow
def test_a_plan_shows_every_latency_beside_its_slo_and_servers_that_are_alike_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rosa("plan", str(CONFIGS / "paper" / "p1.yaml"), "--standby", "2") == 0
    printed = capsys.readouterr().out
    rates = next(line for line in printed.splitlines() if line.startswith("pick_and_place_action_only  32"))
    *_, p99_ms, slo_ms = rates.split()
    assert 0 < int(p99_ms) <= int(slo_ms) == 200
    assert re.search(r"gpu4 to gpu5 .* 6 pick_and_place_action_only", printed), printed
    assert re.search(r"standby0 to standby1 .* standby for 6 of the others", printed), printed
    assert re.search(r"gpu0 to gpu5 +standby0 then standby1", printed), printed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["factory", "paper/p4", "paper/mix4"])
def test_what_limits_a_rate_adds_up_to_the_round(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", str(CONFIGS / f"{name}.yaml")) == 0
    lines = re.findall(r": ([\d.]+) Hz of at most .*; a round of (\d+) ms is (.*?);", capsys.readouterr().out)
    assert lines
    for rate_hz, round_ms, parts in lines:
        assert 1000 / float(rate_hz) == pytest.approx(float(round_ms), rel=0.01)
        spent_ms = [float(part.split()[0]) for part in parts.split(" + ")]
        assert sum(spent_ms) == pytest.approx(float(round_ms), abs=3), parts


@pytest.mark.slow
def test_json_has_what_other_programs_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", FIGURE_3, "--json", "--standby", "1") == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["feasible"] is True
    assert plan["reasons"] == []
    assert plan["action_throughput_hz"] > 0
    assert plan["rates_hz"]["inspect_product"]["safety"] == 2
    assert {"id", "model", "components", "batch", "standby"} <= set(plan["servers"][0])
    assert [server["standby"] for server in plan["servers"]].count(True) == 1
    schedule = schedule_from(plan)
    assert plan.pop("prediction")["action_throughput_hz"] >= plan["action_throughput_hz"]
    assert schedule.to_dict() == plan


@pytest.mark.slow
def test_what_if_changes_robots_servers_and_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", FIGURE_3, "--json", "--what-if", "robots=64", "servers=12") == 0
    assert sum(json.loads(capsys.readouterr().out)["robots"].values()) == 64
    assert rosa("plan", FIGURE_3, "--json", "--what-if", "inspect_product=0") == 0
    assert json.loads(capsys.readouterr().out)["robots"] == {"pick_and_place_simple": 16}


@pytest.mark.slow
def test_what_if_may_be_said_more_than_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", FIGURE_3, "--json", "--what-if", "robots=64", "--what-if", "servers=12") == 0
    planned = json.loads(capsys.readouterr().out)
    assert sum(planned["robots"].values()) == 64 and len(planned["servers"]) == 12


@pytest.mark.slow
def test_the_first_lines_say_what_is_promised_and_what_is_expected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rosa("plan", FIGURE_3, "--what-if", "robots=64") == 0
    line = capsys.readouterr().out.splitlines()[2]
    found = re.fullmatch(
        r"(.*) actions/s.* for any arrivals, (.*) expected as the server carries it out .*", line
    )
    assert found is not None, line
    assert 0 < float(found[1]) < float(found[2])


@pytest.mark.slow
def test_a_lab_with_one_gpu_gets_a_plan_in_which_models_take_turns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rosa("plan", str(CONFIGS / "lab.yaml")) == 0
    shown = capsys.readouterr().out
    assert "4 robots on 1 x NVIDIA H200" in shown
    assert "Models take turns, one batch at a time: system1, safety, monitor, system2 on gpu0" in shown
    assert "The models of gpu0 take 69,000 MB of its 141,000 MB." in shown


@pytest.mark.slow
def test_min_servers_says_how_many_are_enough_where_models_take_turns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lab = str(CONFIGS / "lab.yaml")
    assert rosa("plan", lab, "--min-servers", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["min_servers"], found["with_shared_gpus"]["0.0"]) == (4, 1)
    assert rosa("plan", lab, "--min-servers") == 0
    assert "(--share-gpus), fewer are enough: 1 for the minimum rates" in capsys.readouterr().out


@pytest.mark.parametrize(
    "other", [("--scheduler", "paper"), ("--exact",), ("--bound",), ("--migrate-from", "x")]
)
def test_sharing_gpus_cannot_be_combined_with_everything(
    other: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert rosa("plan", FIGURE_3, "--share-gpus", *other) == 2
    assert (
        f"{' '.join(other[:2]) if other[0] == '--scheduler' else other[0]} and --share-gpus"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("change", ["robot=3", "robots=-1", "robots=many", "robots", "robots=0"])
def test_a_wrong_what_if_is_explained(change: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", FIGURE_3, "--what-if", change) == 2
    assert "--what-if" in capsys.readouterr().err


def test_a_what_if_that_says_two_things_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", FIGURE_3, "--what-if", "servers=8", "servers=12") == 2
    assert "servers: is given twice" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_a_what_if_does_not_matter(order: int, capsys: pytest.CaptureFixture[str]) -> None:
    mix4 = str(CONFIGS / "paper" / "mix4.yaml")
    changes = ["robots=20", "servers=6", "assemble_kit=5"][::order]
    assert rosa("plan", mix4, "--json", "--what-if", *changes) == 0
    robots = json.loads(capsys.readouterr().out)["robots"]
    assert robots["assemble_kit"] == 5, "a task that is named has what was asked"
    assert set(robots.values()) == {5}, "the others share the other 15 robots in the mix of the file"


def test_a_what_if_whose_tasks_exceed_all_robots_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", FIGURE_3, "--what-if", "robots=8", "inspect_product=9") == 2
    assert "robots=8 is the number of all robots, and inspect_product=9 makes 9" in capsys.readouterr().err


def test_a_task_that_a_what_if_leaves_without_robots_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", FIGURE_3, "--json", "--what-if", "robots=1") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["robots"] == {"pick_and_place_simple": 1}
    assert "inspect_product is not in the schedule: of 1 robot its share is 0.5" in err
    assert rosa("plan", FIGURE_3, "--json", "--what-if", "inspect_product=0") == 0
    assert "inspect_product has no robots, as requested" in capsys.readouterr().err


def test_options_that_would_do_nothing_together_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {
        PAPER: ["--scheduler", "paper"],
        SERVERS: ["--what-if", "servers=12"],
        "--standby": ["--standby", "1"],
        "--picture": ["--picture", str(tmp_path / "plan.png")],
        "--migrate-from": ["--migrate-from", str(tmp_path / "plan.json")],
    }
    for one, other, why in UNSUPPORTED:
        both = [*words.get(one, [one]), *words.get(other, [other])]
        assert rosa("plan", FIGURE_3, *both) == 2, both
        out, err = capsys.readouterr()
        assert out == ""
        assert f"and {other} cannot be combined: {why}" in err


@pytest.mark.parametrize(
    ("name", "words"), [("none/plan.png", "make it first"), ("plan.docx", "ends in .png, .svg, .pdf")]
)
def test_a_picture_that_cannot_be_written_is_refused_before_the_search(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rosa("plan", FIGURE_3, "--picture", str(tmp_path / name)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err


@pytest.mark.slow
def test_a_factory_that_does_not_fit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", FIGURE_3, "--what-if", "robots=2000") == INFEASIBLE
    assert "safety needs" in capsys.readouterr().out


@pytest.mark.slow
def test_a_plan_says_how_far_from_optimal_it_is_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", str(CONFIGS / "paper" / "mix4.yaml"), "--bound") == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    found = re.fullmatch(r"At most (\d+\.\d)% below the best .* exceeds (\d+\.\d\d)\.", last)
    assert found, last
    assert float(found[1]) < 5.0
    assert rosa("plan", FIGURE_3, "--bound", "--json") == 0
    out, err = capsys.readouterr()
    assert schedule_from(json.loads(out)).feasible, "the bound does not get into the JSON"
    assert "At most" in err


@pytest.mark.slow
def test_a_new_plan_says_how_to_get_there_from_the_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rosa("plan", str(CONFIGS / "paper" / "p4.yaml"), "--what-if", "robots=16", "--json") == 0
    older = tmp_path / "plan.json"
    older.write_text(capsys.readouterr().out)
    more = [
        "plan",
        str(CONFIGS / "paper" / "p4.yaml"),
        "--what-if",
        "robots=64",
        "--migrate-from",
        str(older),
    ]
    assert rosa(*more) == 0
    printed = capsys.readouterr().out
    assert "Steps from the older schedule" in printed
    assert "1. robots act at assemble_kit" in printed
    assert printed.count("robots act at") == 1, "no rate is higher afterwards, so none is said twice"
    assert "load Qwen2.5-VL-3B-Instruct on gpu" in printed, "64 robots need a second safety server"
    assert rosa(*more, "--json") == 0
    was = {server.id: server.models for server in schedule_from(json.loads(older.read_text())).servers}
    now = {s.id: s.models for s in schedule_from(json.loads(capsys.readouterr().out)).servers}
    assert sum(now[name] == models for name, models in was.items()) == 7, "5:1:1:1 becomes 4:1:2:1"
    assert rosa(*more[:-1], str(tmp_path / "none.json")) == 2


@pytest.mark.slow
def test_min_servers_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", FIGURE_3, "--min-servers") == 0
    assert capsys.readouterr().out.startswith("4 servers will keep every SLO")
    assert rosa("plan", FIGURE_3, "--min-servers", "--standby", "1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("5 servers will keep every SLO")
    assert lines[1] == "1 of them, here and below, is kept as standby."
    picture = tmp_path / "plan.png"
    assert rosa("plan", FIGURE_3, "--standby", "1", "--picture", str(picture)) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_unknown_hardware_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(FIGURE_3).read_text().replace("NVIDIA H200", "NVIDIA B300")
    path = tmp_path / "f.yaml"
    path.write_text(text)
    assert rosa("plan", str(path)) == 2
    assert "no profiles for gpu_type 'NVIDIA B300'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_schedule_with_a_route_to_nowhere_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    rosa("plan", FIGURE_3, "--json")
    plan = json.loads(capsys.readouterr().out)
    plan["routing"]["inspect_product/0"]["safety"] = "gpu99"
    with pytest.raises(ConfigError, match="no server 'gpu99'"):
        schedule_from(plan)


@pytest.mark.slow
def test_network_time_makes_rounds_longer_and_stays_with_the_schedule(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rosa("plan", FIGURE_3, "--json") == 0
    near = schedule_from(json.loads(capsys.readouterr().out))
    assert rosa("plan", FIGURE_3, "--json", "--network-ms", "20") == 0
    far = schedule_from(json.loads(capsys.readouterr().out))
    assert far.objective < near.objective
    assert far.options["network_ms"] == 20.0, "admission counts it too"
    assert rosa("plan", FIGURE_3, "--network-ms", "-1") == 2
    assert "--network-ms" in capsys.readouterr().err


@pytest.mark.slow
def test_a_plan_that_takes_too_long_is_given_up_with_a_word_on_the_way(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "FIRST_WORD_S", 0.5)
    huge = ["plan", FIGURE_3, "--what-if", "robots=1000000", "servers=300000", "--time-limit", "2"]
    assert rosa(*huge) == 4
    said = capsys.readouterr().err
    assert "rosa plan: " in said and "s of at most 2 s" in said
    assert "rosa plan was not finished within 2 s" in said
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("number", ["-1", "nan", "inf"])
def test_a_time_limit_that_is_none_is_refused(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", FIGURE_3, "--time-limit", number) == 2
    assert "rosa plan: --time-limit: 1 problem\n  expected seconds" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["-100", "0", "nan", "inf"])
def test_a_time_for_the_exact_search_that_is_none_is_refused(
    number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rosa("plan", FIGURE_3, "--exact", number) == 2
    assert "rosa plan: --exact: 1 problem\n  expected more than 0 seconds" in capsys.readouterr().err


def test_a_number_of_thousands_of_digits_is_named_like_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert rosa("plan", FIGURE_3, "--what-if", f"robots={'9' * 5000}") == 2
    assert "expected robots=N with a whole number" in capsys.readouterr().err


@pytest.mark.slow
def test_a_plan_that_holds_as_it_is_carried_out_says_so_and_what_it_cannot_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tight, plan = tmp_path / "tight.yaml", tmp_path / "plan.json"
    tight.write_text((CONFIGS / "paper" / "p4.yaml").read_text().replace("slo_ms: 200\n", "slo_ms: 70\n"))
    words = ["plan", str(tight), "--what-if", "robots=8"]
    assert rosa(*words, "--json", "--bound") == 0
    printed = capsys.readouterr()
    assert "NOTE: not every SLO holds at p99 whenever calls come" in printed.err
    assert "No bound: it is of schedules whose SLOs hold whenever calls come" in printed.err
    plan.write_text(printed.out)
    assert not schedule_from(json.loads(printed.out)).holds_for_any_arrivals
    assert rosa(*words, "--migrate-from", str(plan)) == 2
    assert "holds only as it was played through" in capsys.readouterr().err


@pytest.mark.slow
def test_a_standby_that_stands_in_for_nobody_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    lab = str(CONFIGS / "lab.yaml")
    assert rosa("plan", lab, "--standby", "1", "--what-if", "servers=3") == 2
    assert "a standby stands in for a server with a GPU to itself" in capsys.readouterr().err
