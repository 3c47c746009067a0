"""The simulated Panda among the robots of a story: its task and the shipped models, and what came of its episodes."""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
from pathlib import Path
from typing import Any

import yaml

from rosa_contract.shipped import shipped
from rosa_sim.machines.story import Story

CONFIGS = shipped("configs")
MAX_EPISODES = 1000  # it plays one after the other until it is told to end
READY_S = 120.0
END_S = 60.0
SUCCEED = 0.9  # of its episodes, as `make demo` asks


def python_of(package: str) -> str:
    """The interpreter of the environment that has this package; the ROS 2 wheels work in their own one only."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return ""
    own = Path(found.origin).parents[4] / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def with_panda(content: dict[str, Any]) -> dict[str, Any]:
    """A factory in which a Panda works beside the others, as the first robot."""
    its = yaml.safe_load((CONFIGS / "pick_place.yaml").read_text())
    task = its["robot_fleet"][0]["task"]
    fleet, models = its["robot_fleet"] + content["robot_fleet"], content["models"] | its["models"]
    return {**content, task: its[task], "robot_fleet": fleet, "models": models}


class Panda:
    """`make demo` at gateways that run already: nodes and simulator on the first machine of a story."""

    def __init__(self, told: Story, gateways: str, config: Path, folder: Path) -> None:
        """Returns when its first episode is over. Raises `TimeoutError`."""
        self._out, self._log = folder / "panda", folder / "panda.log"
        words = (
            "--gateway",
            gateways,
            "--config",
            str(config),
            "--episodes",
            str(MAX_EPISODES),
            "--no-video",
        )
        command = (python_of("rclpy"), "-m", "rosa_sim.demo", *words, "--out", str(self._out))
        self._process = told.start(told.nodes.one, command, self._log)
        told.until(self._summaries, "the Panda's first episode", READY_S)

    def _summaries(self) -> list[Path]:
        return list(self._out.glob("*/summary.json"))

    def end(self) -> bool:
        """Ctrl-C, in the middle of an episode that does not count. Says what came of the others; returns whether
        enough succeeded. Raises `TimeoutError` where it says nothing."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(END_S)
        told = self._log.read_text()
        said = [line for line in told.splitlines() if "succeeded;" in line]
        if not said:
            raise TimeoutError(f"the Panda has ended without a word on its episodes:\n{told[-2000:]}")
        print(f"simulated Panda, shipped models: {said[-1]}", flush=True)
        summary = json.loads(self._summaries()[0].read_text())
        return bool(summary["successes"] >= SUCCEED * summary["episodes"])
