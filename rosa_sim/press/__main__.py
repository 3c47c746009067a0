"""`python -m rosa_sim.press`: so many buttons, and how it went."""

from __future__ import annotations

import argparse

from rosa_sim.press.episode import episode, shipped_task
from rosa_sim.press.scene import PressScene


def main() -> None:
    parser = argparse.ArgumentParser(prog="rosa_sim.press", description=__doc__)
    parser.add_argument(
        "--buttons", type=int, default=10, help="how many, each at another place (default: 10)"
    )
    arguments = parser.parse_args()
    task, robot, backend = shipped_task()
    pressed = 0
    for seed in range(arguments.buttons):
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
    print(f"{pressed} of {arguments.buttons} pressed; answered in {', '.join(sorted(went.spaces))}")


if __name__ == "__main__":
    main()
