"""Generates pages of docs/: configuration, state machine, faults, results.

`python scripts/generate_docs.py --check` exits with 1 when a page is out of date; the test suite calls it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import types
import typing
from pathlib import Path
from typing import Any

from rosa_client.runtime.task_machine import State, diagram
from rosa_contract import config, robot
from rosa_contract.errors import CONFIG_CAUSES
from rosa_contract.fallbacks import FallbackAction
from rosa_sim.faults.table import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
LONGEST_LIST = 4  # items of a list that a cell of a table shows

FACTORY_SECTIONS = (
    ("`server_cluster`", config.ServerCluster),
    ("`robot_fleet`, a list of", config.FleetEntry),
    ("A task, under a name of its own", config.Task),
    ("`<task>.pipeline`", config.Pipeline),
    ("`<task>.components.<name>`", config.Component),
    ("`<task>.task_retry`", config.TaskRetry),
    ("`<task>.safety_and_slo_violation`", config.SafetyAndSloViolation),
    ("`models.<name>`", config.Model),
    ("`gateway`", config.Gateway),
)
ROBOT_SECTIONS = (
    ("Top level", robot.RobotSpec),
    ("`cameras.<name>`", robot.CameraSpec),
    ("`limits`", robot.JointLimits),
    ("`gripper`", robot.GripperSpec),
    ("`chain`", robot.ChainSpec),
    ("`workspace`", robot.WorkspaceSpec),
)


def configuration() -> str:
    lines = [
        "# Configuration reference",
        "",
        "Generated from the dataclasses in `rosa_contract/config.py` and `rosa_contract/robot.py` by `make docs`.",
        "`rosa check FILE` checks a file and prints what it means.",
        "",
        "## The factory file",
        "",
        "The descriptor of Figure 3 of the ROSA paper loads unchanged (`configs/factory.yaml`).",
        "Everything else is optional.",
    ]
    for title, cls in FACTORY_SECTIONS:
        lines += ["", f"### {title}", "", *_table(cls)]
    lines += ["", "### Fallbacks, in order of severity", ""]
    lines += [f"{action.value}. `{action.key}`" for action in FallbackAction]
    lines += ["", "When several hold at once, the most severe wins.", "", "## The robot file", ""]
    lines += ["`configs/robots/*.yaml` describes a robot apart from its tasks."]
    for title, cls in ROBOT_SECTIONS:
        lines += ["", f"### {title}", "", *_table(cls)]
    lines += ["", "## What a mistake looks like", ""]
    lines += [
        "Every mistake in a file is reported at once: its dotted path, what was found and what was expected.",
        "`rosa check --json` gives `path`, `cause` and `words` of each. Compare causes in programs: words may change.",
        "",
        "```sh",
        "$ rosa check factory.yaml",
        "rosa check: factory.yaml: 1 problem",
        "  pick.components.system1.slo: unknown key (did you mean 'slo_ms'?); known: model, slo_ms, ...",
        "```",
        "",
        "| cause | meaning |",
        "|---|---|",
    ]
    lines += [f"| `{cause}` | {meaning} |" for cause, meaning in CONFIG_CAUSES.items()]
    return "\n".join(lines) + "\n"


def state_machine() -> str:
    return (
        "# The robot's state machine\n\n"
        "Generated from the table in `rosa_client/runtime/task_machine.py` by `make docs`. An event that is not\n"
        "in the table raises, names the state and the event, and changes nothing.\n\n"
        f"```mermaid\n{diagram()}\n```\n\nThe arm may play a chunk in `{State.EXECUTING.value}` only. From"
        f" `{State.WAITING_FOR_HUMAN.value}` only an operator's decision, or the end of the task, leads out.\n"
    )


def faults() -> str:
    """Every fault that can be injected, with what the robot promises then."""
    lines = [
        "# Injected faults",
        "",
        "Generated from `rosa_sim/faults/table.py` by `make docs`. `make demo FAULT=<name>` injects one",
        "in the middle of a task; `make faults` injects all of them and compares what happened with what is promised",
        "here. The promises are those of `configs/pick_place.yaml` and `configs/robots/panda.yaml`; what",
        "the words mean is in [failure_ladder.md](failure_ladder.md).",
        "",
        "| fault | where | what it does | what the robot promises | a human is called |",
        "|---|---|---|---|---|",
    ]
    for name, fault in FAULTS.items():
        lines.append(
            f"| `{name}` | {fault.place} | {fault.does} | {fault.promise} | {_calls_a_human(fault)} |"
        )
    return "\n".join(lines) + "\n"


def _calls_a_human(fault: Fault) -> str:
    soonest_s, latest_s = fault.calls_within_s
    if math.isinf(soonest_s):
        return "no"
    if soonest_s == 0:
        return f"at once (`{fault.alert}`)"
    when = f"always when it lasts {latest_s:g} s" if math.isfinite(latest_s) else "perhaps"
    return f"{when}, never before {soonest_s:g} s (`{fault.alert}`)"


def results() -> str:
    """Every result file: command, machine, date, what was aimed at and whether it holds, then all rows."""
    lines = [
        "# Results",
        "",
        "Generated from `benchmarks/results/*.json` by `make docs`. Each section names the command that measures it",
        "again, or says how it was measured. An aim that is missed says so; what was tried is in [log.md](log.md).",
        "Absolute times are those of a small shared machine: compare within one table only. Schedules on H200 servers",
        "(`exact`, `paper_schedules`, `scheduler`) are predictions from profiles that are **derived, not measured**",
        "([scheduler.md](scheduler.md#profiles)).",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        result = json.loads(path.read_text())
        lines += [
            "",
            f"## {result['name']}",
            "",
            f"{_how(result)}, {result['date']}, {result['machine']}",
        ]
        if result["aims"]:
            lines += ["", "| aim | measured | holds |", "|---|---|---|"]
        for aim in result["aims"]:
            lines.append(f"| {aim['aim']} | {_cell(aim['value'])} | {'yes' if aim['holds'] else '**no**'} |")
        for note in result.get("notes", []):
            lines += ["", str(note)]
        lines += ["", *_rows(result["rows"])]
        picture = path.with_suffix(".png")
        if picture.exists():
            lines += ["", f"![{result['name']}](../benchmarks/results/{picture.name})"]
    return "\n".join(lines) + "\n"


def _how(result: dict[str, Any]) -> str:
    """The command that measures it again, or, where there is none, how it was measured."""
    return f"`{result['command']}`" if "command" in result else str(result["how"])


def _rows(rows: list[dict[str, Any]]) -> list[str]:
    """One table per group of rows that share their columns. Mappings are left to the JSON file, and lists of a column
    in which one is long."""
    lines: list[str] = []
    columns: list[str] = []
    long = {
        key
        for row in rows
        for key, value in row.items()
        if isinstance(value, list) and len(value) > LONGEST_LIST
    }
    for row in rows:
        shown = {
            key: value
            for key, value in row.items()
            if not isinstance(value, dict) and not (isinstance(value, list) and key in long)
        }
        if list(shown) != columns:
            columns = list(shown)
            lines += ["", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        lines.append("| " + " | ".join(_cell(value) for value in shown.values()) + " |")
    return lines[1:]


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).replace("|", "\\|")


def _table(cls: type[Any]) -> list[str]:
    hints = typing.get_type_hints(cls)
    rows = ["| key | type | default | limits | meaning |", "|---|---|---|---|---|"]
    for field in dataclasses.fields(cls):
        limits = field.metadata
        cells = (f"`{field.name}`", _type(hints[field.name]), _default(field), _limits(limits), limits["doc"])
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _type(hint: Any) -> str:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _type(next(arg for arg in args if arg is not type(None)))
    if origin is tuple:
        return f"list of {_type(args[0])}"
    if origin is not None:
        return "mapping"
    names = {str: "text", int: "whole number", float: "number", bool: "true/false"}
    return names.get(hint, f"see `{getattr(hint, '__name__', hint)}`")


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return "none" if field.default is None else f"`{field.default!r}`" if field.default != "" else "empty"
    return "**required**" if field.default_factory is dataclasses.MISSING else "defaults of the section"


def _limits(limits: typing.Mapping[str, Any]) -> str:
    signs = (("above", "> {:g}"), ("at_least", ">= {:g}"), ("at_most", "<= {:g}"))
    parts = [text.format(limits[name]) for name, text in signs if limits.get(name) is not None]
    if limits.get("choices"):
        parts.append(", ".join(f"`{choice}`" for choice in limits["choices"]))
    return ", ".join(parts)


PAGES = {
    "configuration.md": configuration,
    "state_machine.md": state_machine,
    "faults.md": faults,
    "results.md": results,
}


def main() -> int:
    stale = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text)
            print(f"wrote docs/{name}")
    if stale and "--check" in sys.argv:
        print(f"out of date: {', '.join(stale)}; run `make docs`")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
