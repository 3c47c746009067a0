"""`make demo`: server, ROS 2 nodes and simulated Panda, a number of pick-and-place episodes, a table and a film.

Everything runs as on a real cell: each part in its own process, cameras over ROS 2, requests over ZeroMQ, the learned
models behind `rosa serve`. What the simulator adds is the physics, the scene of each episode, and the truth.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from datetime import datetime
from pathlib import Path

from rosa_client.bringup import Bringup, BringupError, end_on_signals
from rosa_client.graph import Robot
from rosa_contract.config import load_factory
from rosa_contract.errors import ConfigError
from rosa_sim import report, video
from rosa_sim.episodes import EpisodeError, nobody, stand_in
from rosa_sim.episodes import episodes as watch

ROOT = Path(__file__).resolve().parents[1]
FIRST_SEED = 900_000  # far from every seed that demonstrations were collected on


def main() -> int:
    args = _arguments()
    try:
        factory = load_factory(args.config)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    task = factory.robot_fleet[0].task
    folder = args.out / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    folder.mkdir(parents=True)
    say = Progress()
    episodes: list[report.Episode] = []
    shots: list[video.Shot] = []
    say.line(f"run folder {_shown(folder)}; logs in {_shown(folder / 'logs')}")
    robot = Robot(
        namespace=args.namespace,
        config=str(args.config),
        robot=str(args.robot),
        gateway=factory.gateway.bind,
        record=str(folder / "run.mcap"),
    )
    check_signals = end_on_signals()
    try:
        with (
            Bringup([robot], server=str(args.config), logs=folder / "logs", last=True) as bringup,
            watch(
                args.namespace,
                task,
                alive=lambda: check_signals() or bringup.failure(),
                on_progress=say.status,
                operator=nobody if args.operator else stand_in,
            ) as runner,
        ):
            shots = runner.shots
            runner.wait_ready(120.0)
            say.line(f"{task} with {len(factory.models)} served models; {args.episodes} episodes\n")
            say.line(report.header())
            for number in range(1, args.episodes + 1):
                episode = runner.run(number, args.episodes, args.seed + number - 1, args.timeout)
                episodes.append(episode)
                say.line(report.row(episode))
                complete = number == args.episodes
                report.write(folder, episodes, {"config": str(args.config), "complete": complete})
    except (EpisodeError, BringupError) as error:
        say.line(f"\nstopped: {error}")
        return 1
    except KeyboardInterrupt:
        say.line("\nstopped by Ctrl-C")
        return 130
    finally:
        if episodes:
            _finish(folder, episodes, shots, say, film=not args.no_video)
            if args.result:
                say.line(
                    f"result    {_shown(report.write_result(ROOT / 'benchmarks' / 'results', episodes))}"
                )
    return 0 if sum(episode.success for episode in episodes) >= 0.9 * len(episodes) else 1


def _finish(
    folder: Path, episodes: list[report.Episode], shots: list[video.Shot], say: Progress, film: bool
) -> None:
    """What a run leaves behind, also when it was cut short."""
    say.line(f"\n{report.footer(episodes)}")
    if film and shots:
        path = video.film(
            shots, folder / "video.mp4", lambda done, of: say.status(f"film: {done} of {of} pictures")
        )
        say.line(f"film      {_shown(path)}")
    say.line(f"bag       {_shown(folder / 'run.mcap')} (opens in Foxglove)")
    say.line(f"summary   {_shown(folder / 'summary.json')}")


class Progress:
    """Lines that stay and one status line that is overwritten; without a terminal, only lines that stay."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._last = ""

    def line(self, text: str) -> None:
        self._clear()
        print(text, flush=True)

    def status(self, text: str) -> None:
        if text.endswith("\n"):
            self.line(text.rstrip())
        elif self._live and text != self._last:
            self._clear()
            width = shutil.get_terminal_size().columns - 1
            print(text[:width], end="", flush=True)
            self._last = text

    def _clear(self) -> None:
        if self._last:
            print("\r" + " " * len(self._last) + "\r", end="")
            self._last = ""


def _shown(path: Path) -> str:
    """Relative to where the user stands, when it is below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--episodes", type=int, default=10, help="how many (default 10)")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="scene of the first episode")
    parser.add_argument(
        "--timeout", type=float, default=60.0, help="seconds until an episode counts as failed"
    )
    parser.add_argument(
        "--config", type=Path, default=ROOT / "configs" / "pick_place.yaml", help="factory file"
    )
    parser.add_argument(
        "--robot", type=Path, default=ROOT / "configs" / "robots" / "panda.yaml", help="robot file"
    )
    parser.add_argument("--namespace", default="panda0", help="namespace and name of the robot")
    parser.add_argument("--out", type=Path, default=ROOT / "runs", help="where the run folder is made")
    parser.add_argument(
        "--operator", action="store_true", help="alerts wait for you instead of the demo's stand-in"
    )
    parser.add_argument("--result", action="store_true", help="also write benchmarks/results/demo.json")
    parser.add_argument("--no-video", action="store_true", help="do not render the film")
    args = parser.parse_args()
    if args.episodes < 1:
        parser.error(f"--episodes: expected at least 1, got {args.episodes}")
    return args


if __name__ == "__main__":
    raise SystemExit(main())
