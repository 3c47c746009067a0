"""Findings 9 and 10: words that mislead, and pictures that the models were not made for."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attempts.attempt import ROSA, Attempt, Checkout, Happened
from attempts.late_demo import late_demo
from attempts.robots import in_a_folder
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.variation import CHANGES
from rosa_sim.cell.world import World
from rosa_sim.training.collect import POLICY_CAMERAS
from rosa_sim.training.evaluate import look

FIGURE_3, MIX = "configs/factory.yaml", "configs/paper/p4.yaml"
MISS = re.compile(r"\[(\d+\.\d+)\].*system1.*(?:missed|no answer|deadline)")
GOOD = re.compile(r"\[(\d+\.\d+)\].*system1 is good again")
AT_ONCE = 0.015  # no answer of the model comes as soon after a miss


def good_again(checkout: Checkout) -> Happened:
    _, log = late_demo(checkout)
    misses = [float(found[1]) for line in log.splitlines() if (found := MISS.search(line))]
    good = [float(found[1]) for line in log.splitlines() if (found := GOOD.search(line))]
    wrong = sum(any(0 <= one - miss < AT_ONCE for miss in misses) for one in good)
    return f"{wrong} times after {len(misses)} missed calls", bool(misses) and wrong == 0


def derived(checkout: Checkout, folder: Path) -> Happened:
    ran = checkout.run(checkout.command(ROSA, "plan", FIGURE_3), folder)
    said = "are derived" in ran.said
    return (f"it says: {ran.line('are derived')}" if said else "it does not say so"), said


def slowest(checkout: Checkout, folder: Path) -> Happened:
    ran = checkout.run(checkout.command(ROSA, "plan", FIGURE_3, "--what-if", "servers=2"), folder)
    line = ran.line("system1 needs").removeprefix("- ")
    return f"it says: {line}", "however slowly its robots act" in line


def migration(checkout: Checkout, folder: Path) -> Happened:
    older = folder / "plan.json"
    words = checkout.command(ROSA, "plan", MIX, "--what-if", "robots=16", "--json")
    done = subprocess.run(
        words, cwd=checkout.folder, env=checkout.environment(), capture_output=True, text=True
    )
    older.write_text(done.stdout)
    words = [*words[:4], MIX, "--what-if", "robots=64", "--migrate-from", str(older)]
    ran = checkout.run(words, folder)
    rates = re.findall(r"robots act at .*", ran.said)
    twice = len(rates) - len({rate.split("(")[0].strip() for rate in rates})
    return f"{len(rates)} rates told, {twice} of them twice", bool(rates) and twice == 0


def network(checkout: Checkout, folder: Path) -> Happened:
    near, far = (
        checkout.run(checkout.command(ROSA, "plan", FIGURE_3, *more), folder)
        for more in ((), ("--network-ms", "20"))
    )
    if far.status:
        return far.words(), False
    rates = [
        float(found[1]) if (found := re.search(r"([\d.]+) actions/s", one.said)) else 0.0
        for one in (near, far)
    ]
    return f"{rates[0]:g} actions/s without, {rates[1]:g} with it", 0 < rates[1] < rates[0]


# Runs the monitor of any checkout, on pictures made here.
JUDGE = """
import json, sys
import numpy as np
from rosa_server.models.backend import ModelInput
from rosa_server.models.task_monitor import TaskMonitorBackend
looks = np.load(sys.argv[1])
monitor = TaskMonitorBackend()
monitor.load()
answers = [monitor.infer([ModelInput("monitor",
    images={camera: looks[f"{name}/{camera}"] for camera in ("front", "wrist")},
    state={key: looks[f"{name}/{key}"] for key in ("joint_position", "gripper_width")})])[0]
    for name in sorted({key.split("/")[0] for key in looks})]
print(json.dumps([[answer.verdict, answer.text] for answer in answers]))
"""
CELLS = 10


def judged(
    changes: tuple[str, ...], promised: Callable[[list[str], list[str]], bool]
) -> Callable[[Checkout], Happened]:
    """First looks at changed cells, in which the cube lies on its mat: the task is ongoing."""

    def tried(checkout: Checkout, folder: Path) -> Happened:
        looks: dict[str, Any] = {}
        for change in changes:
            renderer, world = SceneRenderer(POLICY_CAMERAS, CHANGES[change]), World(0)
            for cell in range(CELLS):
                world.reset(cell)
                seen = look(world, renderer)
                for name, value in {**seen.images, **seen.state}.items():
                    looks[f"{change} {cell}/{name}"] = value
            renderer.close()
        np.savez(folder / "looks.npz", **looks)
        command = [checkout.command("")[0], "-c", JUDGE, str(folder / "looks.npz")]
        ran = checkout.run(command, folder)
        if ran.status:
            return ran.words(), False
        answers = json.loads(next(line for line in ran.said.splitlines() if line.startswith("[[")))
        verdicts, reasons = [one[0] for one in answers], [one[1] for one in answers]
        said = ", ".join(f"{number} {verdict}" for verdict, number in Counter(verdicts).items())
        return f"{said}; {sum(map(bool, reasons))} with a reason", promised(verdicts, reasons)

    return in_a_folder(tried)


WORDS = (
    Attempt(
        9,
        "a demo whose answers come late: `system1 is good again` at once after a missed call",
        "never",
        good_again,
    ),
    Attempt(9, "`rosa plan` on derived profiles", "it says so", in_a_folder(derived)),
    Attempt(
        9,
        "`rosa plan` with too few servers: what a component needs at no rate",
        "said in plain words",
        in_a_folder(slowest),
    ),
    Attempt(9, "a migration to a slower schedule", "no rate is told twice", in_a_folder(migration)),
    Attempt(9, "`rosa plan --network-ms 20`", "network time is counted", in_a_folder(network)),
    Attempt(
        10,
        f"{CELLS} cells in a quarter of the light: the monitor's verdict before anything has moved",
        "ongoing, with the reason that it cannot see",
        judged(("a quarter of the light",), lambda said, why: set(said) == {"ongoing"} and all(why)),
    ),
    Attempt(
        10,
        f"{CELLS} cells each with a white and a black cube: the same",
        "never done (that it says failed is in the model card)",
        judged(("white cube", "black cube"), lambda said, why: "done" not in said),
    ),
)
