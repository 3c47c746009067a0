"""Pages that people wrote say what the code does: every cause, rung, choice and number; and no link leads nowhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rosa_client.loops import arm_watch, control_loop
from rosa_client.motion import following, measurement, setpoint_guard
from rosa_client.runtime.ladder import CHOICES
from rosa_client.runtime.mission import Timeouts
from rosa_contract.config.tasks import ESCALATIONS, SafetyAndSloViolation, TaskRetry
from rosa_contract.fallbacks import FALLBACK_NAMES
from rosa_server.serving.edge.metrics import Metrics
from rosa_sim.faults.table import FAULTS

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LADDER = (ROOT / "docs" / "failure_ladder.md").read_text()
LOCAL_SAFETY = (ROOT / "docs" / "local_safety.md").read_text()
# Which argument of which call of the robot's core is a cause.
CAUSE_AT = {"Cause": 0, "note": 1, "stop": 3, "violate": 2, "_unusable": 2, "fall_back": 3, "finish": 2}
# What starts, ends or goes as it should needs no explanation on a page about failures.
AS_IT_SHOULD = {
    "",
    "task_started",
    "actions_in_time",
    "plan_in_time",
    "recovered",
    "monitor",
    "operator",
    "cancelled",
}


def causes() -> Iterator[str]:
    """Every cause that stands in the robot's core as a text."""
    for path in sorted((ROOT / "rosa_client" / "runtime").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            at = CAUSE_AT.get(name)
            if at is not None and len(node.args) > at and isinstance(node.args[at], ast.Constant):
                yield str(node.args[at].value)


def test_every_cause_of_a_stop_or_an_alert_is_explained() -> None:
    found = set(causes())
    assert {"slo_missed", "arm_fault", "max_task_retries", "unsafe", "invalid_actions"} <= found
    explained = set(re.findall(r"`(\w+)`", LADDER))
    assert found - explained - AS_IT_SHOULD == set()
    named = {cause for fault in FAULTS.values() for cause in (*fault.causes, fault.alert) if cause}
    assert named - explained == set(), "causes of the table of faults"


def test_the_rungs_stand_in_their_order_and_every_choice_and_policy_has_its_line() -> None:
    for rung, name in enumerate(FALLBACK_NAMES, start=1):
        assert f"| {rung} | `{name}` |" in LADDER
    for choice in CHOICES:
        assert f"| `{choice}` |" in LADDER
    for policy in ESCALATIONS:
        assert f"- `{policy}`: " in LADDER


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    limits, retries, waits = SafetyAndSloViolation(), TaskRetry(), Timeouts()
    for key, value in (
        ("max_consecutive_slo_violation", limits.max_consecutive_slo_violation),
        ("max_consecutive_safety_replan", limits.max_consecutive_safety_replan),
        ("max_stops_without_action", limits.max_stops_without_action),
        ("max_task_retries", retries.max_task_retries),
    ):
        assert f"| {value} | `{key}` |" in LADDER
    rows = {row.split("`")[1]: row for row in LADDER.splitlines() if row.startswith("| `")}
    assert f"that lasted {waits.sensor_s:g} s" in rows["sensor_silent"]
    assert f"for {waits.sensor_s:g} s" in rows["sensor_fault"]
    assert f"for {waits.arm_s:g} s" in rows["arm_silent"]
    assert f"over {waits.move_s:g} s" in rows["move_timeout"]
    assert f"for {waits.connect_s:g} s" in rows["not_ready"]


def faults_of_the_arm() -> Iterator[str]:
    """Every cause for which an arm gets nothing more, or no longer what was ordered."""
    for module in (measurement, setpoint_guard, following, arm_watch, control_loop):
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            name, cause = getattr(node.func, "id", getattr(node.func, "attr", "")), node.args[0]
            if name == "Refusal" and isinstance(cause, ast.Constant):
                yield str(cause.value)
            elif name == "Refusal" and isinstance(cause, ast.Name):
                yield str(getattr(module, cause.id))
    for part in setpoint_guard.PARTS:
        yield f"setpoint_{part.split()[0]}"


def test_every_fault_that_the_arm_finds_by_itself_has_its_row() -> None:
    found = set(faults_of_the_arm())
    assert {
        "measurement_unconfirmed",
        "arm_driver",
        "arm_elsewhere",
        "setpoint_jerk",
        "control_loop",
    } <= found
    rows = re.findall(r"^\| `(\w+)` \|", LOCAL_SAFETY, re.MULTILINE)
    assert set(rows) == found
    assert len(rows) == len(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RANGE_SLACK_RAD", f"{measurement.RANGE_SLACK_RAD:g} rad"),
        ("SPEED_MARGIN", f"{measurement.SPEED_MARGIN:g} times"),
        ("NOISE_RAD", f"{measurement.NOISE_RAD:g} rad"),
        ("CONFIRM_SAMPLES", f"{measurement.CONFIRM_SAMPLES} samples"),
        ("CONFIRM_S", f"{measurement.CONFIRM_S:g} s"),
        ("SILENT_S", f"{measurement.SILENT_S:g} s"),
        ("STAMP_SLACK_S", f"{measurement.STAMP_SLACK_S:g} s"),
        ("OVERTAKEN_S", f"{measurement.OVERTAKEN_S:g} s"),
        ("CERTAIN_WITHIN_S", f"{control_loop.CERTAIN_WITHIN_S:g} s"),
        ("BLOCKED_S", f"{control_loop.BLOCKED_S:g} s"),
        ("OFF_RAD", f"{following.OFF_RAD:g} rad"),
        ("RECOVER_WITHIN_S", f"{following.RECOVER_WITHIN_S:g} s"),
        ("LEAD_S", f"{following.LEAD_S:g} s"),
        ("BEHIND_FOR_S", f"{arm_watch.BEHIND_FOR_S:g} s"),
        ("MAX_OUTSIDE_M", f"{setpoint_guard.MAX_OUTSIDE_M * 1000:g} mm"),
    ],
)
def test_the_numbers_of_the_arms_own_checks_are_those_of_the_code(name: str, value: str) -> None:
    (row,) = [line for line in LOCAL_SAFETY.splitlines() if line.startswith("|") and f"`{name}`" in line]
    assert value in row


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_the_marks_of_a_merge(page: Path) -> None:
    """Of one that stopped halfway: git takes the file with them as resolved."""
    assert not re.findall(r"^(?:<{7} .*|={7}|>{7} .*)$", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_link_leads_into_nothing(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name} links to {target}, which does not exist"
        if anchor:
            assert anchor in anchors(path), f"{page.name} links to {target}, which has no such heading"


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_metrics_page_names_every_metric_with_its_labels() -> None:
    metrics = Metrics()
    table = (ROOT / "docs" / "metrics.md").read_text()
    described = dict(re.findall(r"^\| `(rosa_\w+)` \| (\w+ \|[^|]*) \|", table, re.MULTILINE))
    served = {}
    for family in metrics.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = getattr(metrics.registry._names_to_collectors[name], "_labelnames", ())
        served[name] = f"{family.type} | {', '.join(f'`{label}`' for label in labels)}".rstrip()
    assert {name: text.rstrip() for name, text in described.items()} == served


FOLDERS = (
    *("rosa_contract", "rosa_client", "rosa_server", "rosa_sim", "benchmarks", "configs", "deploy", "docs"),
    *("examples", "hardware", "integrations", "launch", "ros_ws", "scripts", "tests"),
)
# A path from the root, anywhere on a page; or the name of a file, between backticks.
FROM_THE_ROOT = re.compile(rf"(?<![\w/.:<-])(?:{'|'.join(FOLDERS)})/[\w./*@-]*")
IN_TICKS = re.compile(r"`([\w./-]+\.(?:py|md|rviz|msg|srv|action|urdf|xml|safetensors))`")
OF_A_READER = {"my_module.py", "my_policy.py", "scripts/serve_policy.py"}  # to be written, or of openpi
PLACEHOLDER = re.compile(r"NAME|NAMESPACE|_x/|/x/|test_z")


def test_every_file_that_a_page_names_exists() -> None:
    files = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    files += [path.name for path in ROOT.iterdir()]
    card = ROOT / "rosa_server" / "models" / "weights" / "README.md"
    missing = []
    for page in [*PAGES, card]:
        text = page.read_text()
        named = {name.rstrip("./-") for name in FROM_THE_ROOT.findall(text)} | set(IN_TICKS.findall(text))
        for name in sorted(named - OF_A_READER):
            if "*" in name:
                exists = any(ROOT.glob(name))
            else:
                exists = any(file == name or file.endswith(f"/{name}") for file in files)
            if not exists and not PLACEHOLDER.search(name):
                missing.append(f"{page.relative_to(ROOT)}: {name}")
    assert not missing, "\n".join(missing)


def test_every_class_of_the_glossary_is_where_it_says() -> None:
    rows = re.findall(r"`(\w+)` in `([\w/]+\.py)`", (ROOT / "docs" / "glossary.md").read_text())
    assert len(rows) > 10
    for name, path in rows:
        assert re.search(rf"^(class {name}\b|{name} = )", (ROOT / path).read_text(), re.MULTILINE), (
            f"{name} in {path}"
        )


def test_the_glossary_has_each_word_once() -> None:
    rows = re.findall(
        r"^\| ([a-z][^|]*) \| [^|]+ \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE
    )
    words = [word.strip() for row in rows for word in row.split(",")]
    assert len(words) > 40
    assert sorted({word for word in words if words.count(word) > 1}) == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """mkdocs refuses a page that is not; this says so without mkdocs."""
    named = re.findall(r"(?:- |: )([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    there = [str(page.relative_to(ROOT / "docs")) for page in sorted((ROOT / "docs").rglob("*.md"))]
    assert sorted(named) == there
