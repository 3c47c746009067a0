"""Generates pages of docs/: configuration, state machine, faults, limits, results, reference/, and parts of others.

`python scripts/generate_docs.py --check` exits with 1 when a page is out of date; the test suite calls it.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
import types
import typing
from pathlib import Path
from typing import Any

import reference_pages
import results_page
from release import pixi

from benchmarks.scheduling import kairos_page, roofline
from rosa_client.motion import following
from rosa_client.runtime.machines.machine import diagram, drawn
from rosa_client.runtime.machines.side_machines import (
    LEG_PROGRESS,
    SAFETY_VERDICTS,
    UNFINISHED,
    LegProgress,
    Safety,
    Unfinished,
)
from rosa_client.runtime.machines.task_machine import TRANSITIONS, State
from rosa_contract.config import (
    adapter,
    arms,
    cameras,
    frontends,
    gateway,
    models,
    policies,
    robot,
    tasks,
)
from rosa_contract.config import factory as config
from rosa_contract.config.body import chain
from rosa_contract.errors import CONFIG_CAUSES
from rosa_contract.fallbacks import FallbackAction
from rosa_contract.wire import horizon
from rosa_server.plan import nodes_file
from rosa_server.serving.core.guard.limits import CAUSES, OFFENCES
from rosa_server.serving.edge.limit_table import limit_rows
from rosa_sim.faults.measured import WRONG_MEASUREMENTS
from rosa_sim.faults.table import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

FACTORY_SECTIONS = (
    ("`server_cluster`", config.ServerCluster),
    ("`robot_fleet` (list)", config.FleetEntry),
    ("`<task>`, a key of your choice for each task", tasks.Task),
    ("`<task>.pipeline`", tasks.Pipeline),
    ("`<task>.pipeline.horizon`", horizon.Horizon),
    ("`<task>.components.<name>`", tasks.Component),
    ("`<task>.task_retry`", tasks.TaskRetry),
    ("`<task>.safety_and_slo_violation`", tasks.SafetyAndSloViolation),
    ("`models.<name>`", models.Model),
    ("`models.<name>.cloud`", models.Cloud),
    ("`models.<name>.adapter`", adapter.Adapter),
    ("`models.<name>.adapter.cameras.<picture>`", adapter.CameraInput),
    ("`models.<name>.adapter.state.<array>` (list)", adapter.StatePart),
    ("`models.<name>.adapter.actions`", adapter.Actions),
    ("`models.<name>.adapter.actions.parts` (list)", adapter.ActionPart),
    ("`models.<name>.adapter.tool_frame`", adapter.ToolFrame),
    ("`models.<name>.adapter.base_frame`", adapter.BaseFrame),
    ("`models.<name>.adapter.normalisation`", adapter.Normalisation),
    ("`gateway`", gateway.Gateway),
    ("`policies`", policies.Policies),
    ("`frontends.<name>`", frontends.Frontend),
    ("`frontends.<name>.images.<camera>`", frontends.ImageSource),
    ("`frontends.<name>.state.<name>` (list)", frontends.StatePart),
    ("`frontends.<name>.actions.<name>` (list)", frontends.ActionPart),
)
ROBOT_SECTIONS = (
    ("Top level", robot.RobotSpec),
    ("`cameras.<name>`", cameras.CameraSpec),
    ("`cameras.<name>.intrinsics`", cameras.Intrinsics),
    ("`cameras.<name>.pose`", cameras.CameraPose),
    ("`limits`", robot.JointLimits),
    ("`gripper`", robot.GripperSpec),
    ("`chain`", chain.ChainSpec),
    ("`workspace`", robot.WorkspaceSpec),
    ("`arms.<name>`", robot.ArmSpec),
    ("`arm` with `arm_driver: ros2_control`", arms.Ros2ControlSettings),
    ("`arm.gripper` and `arm.grippers.<name>` with `arm_driver: ros2_control`", arms.GripperActions),
    ("`arm` with `arm_driver: franka`", arms.FrankaSettings),
    ("`arm.gripper` with `arm_driver: franka`", arms.FrankaHand),
)
NODES_SECTIONS = (
    ("All nodes", nodes_file.NodesFile),
    ("`nodes.<name>`", nodes_file.GatewayNode),
)


def configuration() -> str:
    lines = [
        "# Configuration reference",
        "",
        "Generated from the dataclasses in `rosa_contract/config/` (`factory.py`, `tasks.py`, `models.py`,",
        "`adapter.py`, `gateway.py`, `policies.py`, `frontends.py`, `robot.py`, `cameras.py`,",
        "`arms.py`) by `make docs`. `rosa check FILE` checks a file and prints a summary of it.",
        "",
        "Files are YAML 1.2 (core schema): only `true` and `false` are booleans; `yes`, `no`, `on` and `off` are text;",
        "`6:40` is text, not 400; `010` is ten; `1e3` is a number. A duplicate key is an error.",
        "",
        "## The factory file",
        "",
        "The descriptor in Figure 3 of the ROSA paper loads unchanged (`configs/factory.yaml`).",
        "Everything beyond it is optional. Equation (1) is from the paper.",
    ]
    for title, cls in FACTORY_SECTIONS:
        lines += ["", f"### {title}", "", *_table(cls)]
    lines += ["", "### Fallbacks, in order of severity", ""]
    lines += [f"{action.value}. `{action.key}`" for action in FallbackAction]
    lines += ["", "When several apply at once, the most severe wins.", "", "## The robot file", ""]
    lines += [
        "A file such as `configs/robots/panda.yaml` describes one kind of robot, independent of its tasks."
    ]
    for title, cls in ROBOT_SECTIONS:
        lines += ["", f"### {title}", "", *_table(cls)]
    lines += ["", "## The nodes file", ""]
    lines += [
        "For several gateways that share one schedule ([cluster](cluster.md#several-gateways-of-one-schedule))."
    ]
    for title, cls in NODES_SECTIONS:
        lines += ["", f"### {title}", "", *_table(cls)]
    lines += ["", "## Error messages", ""]
    lines += [
        "All mistakes in a file are reported together, each with its dotted path, what was found, and what was",
        "expected. `rosa check --json` gives the `path`, `cause` and `words` of each. Programs should compare causes:",
        "the words may change.",
        "",
        "<!-- run: 2 -->",
        "```sh",
        "$ rosa check factory.yaml",
        "rosa check: factory.yaml: 2 problems",
        "  pick.components.system1.slo: unknown key (did you mean 'slo_ms'?); known: model, slo_ms, ...",
        "  pick.components.system1.slo_ms: is missing; expected a number: deadline, measured on the robot from sending",
        "```",
        "",
        "| cause | meaning |",
        "|---|---|",
    ]
    lines += [f"| `{cause}` | {meaning} |" for cause, meaning in CONFIG_CAUSES.items()]
    return "\n".join(lines) + "\n"


def state_machine() -> str:
    """The four tables of the robot's core, and the arm's table around a fault, each as a diagram."""
    side = (
        (
            "The last safety verdict",
            "An attempt does not move until the safety component has reported safe in that attempt. `unguarded`:\n"
            "the task has no safety component.",
            diagram(SAFETY_VERDICTS, Safety.UNKNOWN),
        ),
        (
            "Interrupted moves",
            "A reset or a move to the safe pose that was interrupted starts again later: the move to the safe pose\n"
            "once the danger is over, the reset once nothing holds the robot any more.",
            diagram(UNFINISHED, Unfinished.NOTHING),
        ),
        (
            "Progress of a move",
            "A move to a named pose consists of one or more legs (`rosa_client/runtime/route.py`).",
            diagram(LEG_PROGRESS, LegProgress.ARRIVED),
        ),
    )
    lines = [
        "# The robot's state machine",
        "",
        "Generated by `make docs` from the transition tables in `rosa_client/runtime/machines/task_machine.py` and",
        "`side_machines.py`, and, for the last diagram, in `rosa_client/motion/following.py`. An event that is not in",
        "the table raises an error with the state and the event, and changes nothing. `make prove` explores every",
        "possible sequence of events and covers every transition of the first four diagrams.",
        "",
        "## The task",
        "",
        f"```mermaid\n{diagram(TRANSITIONS, State.IDLE)}\n```",
        "",
        f"The arm plays chunks only in `{State.EXECUTING.value}`. Only an operator's decision or the end of the task",
        f"leads out of `{State.WAITING_FOR_HUMAN.value}`.",
    ]
    for title, text, figure in side:
        lines += ["", f"## {title}", "", text, "", f"```mermaid\n{figure}\n```"]
    lines += [
        "",
        "## Setpoints around a fault",
        "",
        "This runs in the arm node, independently of the task: see [local_safety.md](local_safety.md#around-a-fault).",
        "",
        f"```mermaid\n{diagram(following.TRANSITIONS, following.Follow.SETPOINTS)}\n```",
    ]
    for title, symbols in (
        ("state | sent to the arm", following.Follow),
        ("event | meaning", following.Event),
    ):
        lines += ["", f"| {title} |", "|---|---|", *[f"| `{drawn(one)}` | {one.value} |" for one in symbols]]
    return "\n".join(lines) + "\n"


def faults() -> str:
    """Every fault that can be injected, with what the robot promises then."""
    lines = [
        "# Injected faults",
        "",
        "Generated from `rosa_sim/faults/table.py` by `make docs`. `make demo FAULT=<name>` injects one",
        "in the middle of a task; `make faults` injects all of them and compares what happens with the promises below.",
        "The promises follow from `configs/pick_place.yaml` and `configs/robots/panda.yaml`;",
        "[failure_ladder.md](failure_ladder.md) explains the terms.",
        "",
        "| fault | where | what it does | what the robot promises | a human is called |",
        "|---|---|---|---|---|",
    ]
    for name, fault in FAULTS.items():
        lines.append(
            f"| `{name}` | {fault.place} | {fault.does} | {fault.promise} | {_calls_a_human(fault)} |"
        )
    lines += [
        "",
        "## Wrong measurements",
        "",
        "Generated from `rosa_sim/faults/measured.py`. Whatever is measured, an arm that stands still gets no new",
        "command, with or without a latched stop, and it recovers when the measurements do.",
        "`tests/unit/client/motion/test_hostile_measurements.py` tries each one with every driver, and mixes them",
        "at random with commands, stops and recoveries. The reported cause depends on the driver: some get no",
        "stamps, or no joint names. What each cause means, and what a person does, is in",
        "[local_safety.md](local_safety.md#what-is-measured-is-not-trusted).",
        "",
        "| wrong measurement | reported cause |",
        "|---|---|",
    ]
    for wrong in WRONG_MEASUREMENTS.values():
        causes = ", ".join(f"`{cause}`" for cause in wrong.causes) or "none: an arm at rest has not moved"
        lines.append(f"| {wrong.what} | {causes} |")
    return "\n".join(lines) + "\n"


def _calls_a_human(fault: Fault) -> str:
    soonest_s, latest_s = fault.calls_within_s
    if math.isinf(soonest_s):
        return "no"
    if soonest_s == 0:
        return f"at once (`{fault.alert}`)"
    when = f"always if it lasts {latest_s:g} s" if math.isfinite(latest_s) else "possibly"
    return f"{when}, never within {soonest_s:g} s (`{fault.alert}`)"


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
        return "mapping" if args[1] is Any else f"mapping to {_type(args[1])}"
    names = {str: "text", int: "whole number", float: "number", bool: "true/false"}
    return names.get(hint) or f"[section](#{_anchor(hint)})"


def _anchor(cls: type[Any]) -> str:
    """Where the keys of a section are: the heading as a link has it."""
    sections = (*FACTORY_SECTIONS, *ROBOT_SECTIONS, *NODES_SECTIONS)
    title = next(title for title, known in sections if known is cls)
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
        return "**required**"
    if field.default_factory is not dataclasses.MISSING:
        return "empty" if field.default_factory in (dict, tuple) else "the section's defaults"
    if field.default is None:
        return "none"
    if field.default in ("", ()):
        return "empty"
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    return f"`{str(value).lower() if isinstance(value, bool) else repr(value)}`"


def _limits(limits: typing.Mapping[str, Any]) -> str:
    signs = (("above", "> {:.12g}"), ("at_least", ">= {:.12g}"), ("at_most", "<= {:.12g}"))
    parts = [text.format(limits[name]) for name, text in signs if limits.get(name) is not None]
    if limits.get("choices"):
        parts.append(", ".join(f"`{choice}`" for choice in limits["choices"] if choice))
    return ", ".join(parts)


def limits() -> str:
    """What peers may use of a gateway, and why one is cut off."""
    lines = [
        "# Limits of a gateway",
        "",
        "Generated by `make docs` from `rosa_server/serving/edge/limit_table.py`. [security.md](security.md) explains",
        "why they exist; `make hostile` tries to exceed them beside well-behaved robots",
        "([results](../benchmarks/results/hostile.json)).",
        "`tests/unit/server/serving/core/guard/test_limits.py` exceeds every limit whose cause ends a connection.",
        "",
        "A *stranger* is a connection on which no robot has been welcomed; a *robot* is one on which one has. *Held*",
        "bytes belong to messages that are still incomplete; *unread* bytes belong to answers that the peer's",
        "machine has not acknowledged. *Handling time* is CPU time of the gateway's main thread.",
        "",
        "| limit | value | applies to | when exceeded |",
        "|---|---|---|---|",
    ]
    lines += [f"| {row.what} | {row.value} | {row.of} | {row.beyond} |" for row in limit_rows()]
    lines += [
        "",
        "## Why a connection is cut off",
        "",
        "`rosa_connections_cut_off_total` counts them by cause, and `connection_cut_off` in the log names the peer.",
        f"After an offence ({', '.join(f'`{cause}`' for cause in OFFENCES)}) the address has to wait.",
        "",
        "| cause | meaning |",
        "|---|---|",
    ]
    lines += [f"| `{cause}` | {meaning} |" for cause, meaning in CAUSES.items()]
    return "\n".join(lines) + "\n"


def readme() -> str:
    """The page as it is, with its figures from the results and its quick start from the example that is tested."""
    text = (ROOT / "README.md").read_text()
    text = _between("quickstart", f"```python\n{(ROOT / 'examples' / 'quickstart.py').read_text()}```", text)
    return _between("figures", "\n".join(readme_figures()), text)


def scheduler() -> str:
    """The page as it is, with what the orders of the queue are worth from the results."""
    return _between("order", "\n".join(kairos_page.lines()), (DOCS / "scheduler.md").read_text())


def bring_your_own() -> str:
    """The page as it is, with what the roofline says beside what was published."""
    lines = roofline.page_lines(results_page.result("roofline")["rows"])
    return _between("roofline", "\n".join(lines), (DOCS / "bring_your_own.md").read_text())


def frontends() -> str:
    """The page as it is, with what openpi's clients get from either server."""
    return _between("beside", "\n".join(frontend_rows()), (DOCS / "frontends.md").read_text())


def frontend_rows() -> list[str]:
    """Answers per second, median latency and the share in time of openpi's clients, by their number."""
    peers = ("openpi's server", "ROSA, openpi's client")
    found = {(row["peer"], row["clients"]): row for row in results_page.result("frontends")["rows"]}
    lines = [
        "| openpi's clients | its own server: answers/s, p50, within 200 ms | through ROSA |",
        "|---|---|---|",
    ]
    for clients in sorted({clients for _, clients in found}):
        rows = (found[peer, clients] for peer in peers)
        cells = (f"{row['calls_per_s']:.0f}, {row['p50_ms']:.0f} ms, {row['in_time']:.0%}" for row in rows)
        lines.append(f"| {clients} | {' | '.join(cells)} |")
    return lines


def _between(name: str, lines: str, text: str) -> str:
    """`text` with `lines` between the two marks of this name. Raises `ValueError` where they are missing."""
    marks = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    written, count = marks.subn(lambda found: f"{found[1]}{lines}\n{found[2]}", text)
    if count != 1:
        raise ValueError(f"expected one place for {name!r}, found {count}")
    return written


def readme_figures() -> list[str]:
    """The four that a reader wants first."""
    faults, claims, policy, transport = (
        results_page.result(name) for name in ("faults", "claims", "policy", "transport")
    )
    runs = sum(row["repetitions"] for row in faults["rows"])
    promised = sum(row["as promised"] for row in faults["rows"])
    hz = {
        one["system"]: one["qualified_hz"]
        for one in claims["points"]
        if one["scenario"] == "p4" and one["robots"] == 64 and one.get("start", "random") == "random"
    }
    published = max(hz[name] for name in results_page.PUBLISHED)
    best = max(hz[name] for name in results_page.NAMES if name not in results_page.PUBLISHED)
    asked = {row["peer"]: row["p50_ms"] for row in transport["rows"] if row["scenario"] == "1 client"}
    rows = [
        (
            f"{len(faults['rows'])} kinds of fault on purpose ([list](docs/faults.md))",
            f"{promised} of {runs} runs end as promised, none executes a command from a late answer",
            "simulated cell",
        ),
        (
            "64 robots with four models each on 8 GPUs ([fleet](docs/fleet.md))",
            f"{hz['rosa']:.0f} actions/s in time; ROSA as published {published:.0f},"
            f" best baseline {best:.0f}",
            "simulated fleet, H200 profiles derived from the paper, **not measured**",
        ),
        (
            "pick and place, 100 unseen scenes",
            f"{policy['rows'][0]['value']:.0%} succeed",
            "simulated Panda, CPU",
        ),
        (
            "round trip of one client",
            f"{asked['rosa']:.2f} ms; openpi's server {asked['openpi websocket']:.2f} ms",
            "two cores, no model",
        ),
    ]
    return ["| what | result | where |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]


PAGES = {
    "../README.md": readme,
    "../pixi.toml": pixi.text,
    "configuration.md": configuration,
    "state_machine.md": state_machine,
    "faults.md": faults,
    "limits.md": limits,
    "results.md": results_page.page,
    "scheduler.md": scheduler,
    "bring_your_own.md": bring_your_own,
    "frontends.md": frontends,
    **reference_pages.PAGES,
}


def main() -> int:
    stale = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.resolve().relative_to(DOCS.parent)}")
    if stale and "--check" in sys.argv:
        print(f"out of date: {', '.join(stale)}; run `make docs`")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
