"""`python -m rosa_sim.press`: presses some buttons and says how it went; with --ros through nodes and a server."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rosa_sim.press.episode import episode, shipped_task
from rosa_sim.press.scene import PressScene


def main() -> None:
    parser = argparse.ArgumentParser(prog="rosa_sim.press", description=__doc__)
    parser.add_argument(
        "--buttons", type=int, default=10, help="how many, each at another place (default: 10)"
    )
    parser.add_argument("--ros", action="store_true", help="server, worker and ROS 2 nodes as processes")
    arguments = parser.parse_args()
    if arguments.ros:
        through_nodes(arguments.buttons)
    else:
        in_one_process(arguments.buttons)


def in_one_process(buttons: int) -> None:
    task, robot, backend = shipped_task()
    pressed = 0
    for seed in range(buttons):
        scene = PressScene(robot, seed)
        try:
            went = episode(task, robot, backend, scene)
        finally:
            scene.close()
        pressed += went.pressed
        words = "pressed" if went.pressed else f"not pressed: {'; '.join(went.refused) or 'given up'}"
        x, y = scene.button_m
        print(
            f"button {seed} at ({x:.2f}, {y:.2f}) m: {words} after {went.task_s:.1f} s, {went.rounds} rounds"
        )
    print(f"{pressed} of {buttons} pressed; answered in {', '.join(sorted(went.spaces))}")


def through_nodes(buttons: int) -> None:
    from rosa_sim.press.nodes import pressed_through_nodes

    pressed = 0
    for seed in range(buttons):
        with tempfile.TemporaryDirectory() as folder:
            went = pressed_through_nodes(seed, Path(folder))
        pressed += went["outcome"] == "done"
        print(f"button {seed}: {went['outcome']} after {went['rounds']} rounds: {went.get('reason', '')}")
    print(f"{pressed} of {buttons} pressed through the nodes")


if __name__ == "__main__":
    main()
