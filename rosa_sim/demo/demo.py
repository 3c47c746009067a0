"""`make demo`: server, ROS 2 nodes and simulated Panda, a number of pick-and-place episodes, a table and a video.

Everything runs as on a real cell: each part in its own process, cameras over ROS 2, requests over ZeroMQ, the learned
models behind `rosa serve`. What the simulator adds is the physics, the scene of each episode, and the truth.

With `--fault NAME` (or `make demo FAULT=NAME`) something goes wrong in the middle of each episode, on purpose.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from datetime import datetime
from pathlib import Path

from rosa_client.bringup.bringup import BringupError, end_on_signals
from rosa_client.bringup.graph import Robot
from rosa_contract.config import load_factory
from rosa_contract.errors import ContractError
from rosa_sim.demo import report, video
from rosa_sim.demo.episodes import EpisodeError, EpisodeRunner, nobody, stand_in
from rosa_sim.demo.episodes import episodes as watch
from rosa_sim.faults.cell import PLACES, FaultyCell, set_up
from rosa_sim.faults.inject import Injector
from rosa_sim.faults.story import Story
from rosa_sim.faults.summary import FaultRun
from rosa_sim.faults.summary import table as fault_table
from rosa_sim.faults.table import fault as fault_called
from rosa_sim.faults.table import listing

ROOT = Path(__file__).resolve().parents[2]
FIRST_SEED = 900_000  # far from the seeds of the demonstrations
EPISODES, EPISODES_WITH_FAULT = 10, 2
FAULT_AT = (3, 0.1)  # the fault begins this many s after this chunk began to play


def main() -> int:
    args = _arguments()
    if args.fault == "list":
        print(listing())
        return 0
    try:
        injected = fault_called(args.fault) if args.fault else None
        factory = load_factory(args.config)
        folder = args.out / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        folder.mkdir(parents=True)
        robot = Robot(
            namespace=args.namespace,
            config=str(args.config),
            robot=str(args.robot),
            gateway=factory.gateway.bind,
            record=str(folder / "run.mcap"),
        )
        places = {injected.place} & set(PLACES) if injected is not None else set()
        made = set_up(robot, places, folder / "faults")
    except ContractError as error:
        print(error, file=sys.stderr)
        return 2
    task = factory.robot_fleet[0].task
    say = Progress()
    episodes: list[report.Episode] = []
    shots: list[video.Shot] = []
    fault_runs: list[FaultRun] = []
    say.line(f"run folder {_shown(folder)}; logs in {_shown(folder / 'logs')}")
    check_signals = end_on_signals()

    def alive() -> str:
        check_signals()
        for line in cell.bringup.news():
            say.line(line)
        return cell.bringup.failure()

    try:
        with (
            FaultyCell(made, folder / "logs", last=True) as cell,
            watch(
                args.namespace,
                task,
                alive=alive,
                on_progress=say.status,
                operator=nobody if args.operator else stand_in,
            ) as runner,
        ):
            shots = runner.shots
            run = Run(args, cell, runner, say, fault_runs)
            runner.wait_ready(120.0)
            models = report.counted(len(factory.models), "served model")
            say.line(f"{task} with {models}; {report.counted(args.episodes, 'episode')}\n")
            say.line(report.header())
            for number in range(1, args.episodes + 1):
                episode = run.episode(number)
                episodes.append(episode)
                say.line(report.row(episode))
                extra = {"config": str(args.config), "complete": number == args.episodes}
                report.write(folder, episodes, {**extra, "faults": [one.plain() for one in fault_runs]})
            run.close()
    except (EpisodeError, BringupError) as error:
        say.line(f"\nstopped: {error}")
        return 1
    except KeyboardInterrupt:
        say.line("\nstopped by Ctrl-C")
        return 130
    finally:
        if episodes:
            _finish(folder, episodes, shots, say, render=not args.no_video)
            if fault_runs:
                say.line(f"\n{fault_table(fault_runs)}")
            if args.result:
                say.line(
                    f"result    {_shown(report.write_result(ROOT / 'benchmarks' / 'results', episodes))}"
                )
    if fault_runs:
        return 0 if not any(one.problems for one in fault_runs) else 1
    return 0 if sum(episode.success for episode in episodes) >= 0.9 * len(episodes) else 1


class Run:
    """Runs the episodes, each with the fault in its middle if there is one."""

    def __init__(
        self,
        args: argparse.Namespace,
        cell: FaultyCell,
        runner: EpisodeRunner,
        say: Progress,
        fault_runs: list[FaultRun],
    ) -> None:
        self._args, self._runner, self._fault_runs = args, runner, fault_runs
        self._injector: Injector | None = None
        if args.fault:
            self._injector = Injector(cell, runner.node)
            self._story = Story(runner, self._injector, say=say.line)
            if args.operator:
                runner.operator = nobody

    def episode(self, number: int) -> report.Episode:
        args = self._args
        seed = args.seed + number - 1
        if self._injector is None:
            return self._runner.run(number, args.episodes, seed, args.timeout)
        seconds = args.fault_seconds or fault_called(args.fault).shown_s
        chunk, into_s = FAULT_AT
        episode, seen = self._story.run(
            args.fault, number, args.episodes, seed, args.timeout, seconds, chunk, into_s
        )
        self._fault_runs.append(FaultRun(args.fault, seen))
        return episode

    def close(self) -> None:
        if self._injector is not None:
            self._injector.close()


def _finish(
    folder: Path, episodes: list[report.Episode], shots: list[video.Shot], say: Progress, render: bool
) -> None:
    """Write what a run leaves behind, also when it was interrupted."""
    say.line(f"\n{report.footer(episodes)}")
    if render and shots:
        path = video.render(
            shots, folder / "video.mp4", lambda done, of: say.status(f"video: {done} of {of} pictures")
        )
        say.line(f"video     {_shown(path)}")
    bag = _bag(folder / "run.mcap")
    timeline = _timeline(folder / "run.mcap", folder / "timeline.png", say)
    if timeline is not None:
        say.line(f"timeline  {_shown(timeline)}")
    say.line(bag)
    say.line(f"summary   {_shown(folder / 'summary.json')}")


def _bag(path: Path) -> str:
    """A line about the recording. Also adds the index when the recorder could not."""
    from rosa_client.recording.bag import BagError, finish

    try:
        note = "its recorder ended before the run; " if finish(path) else ""
    except (OSError, BagError) as error:
        return f"no bag: {error}"
    return f"bag       {_shown(path)} ({note}opens in Foxglove)"


def _timeline(bag: Path, picture: Path, say: Progress) -> Path | None:
    """Draw the timeline; a run without one still has its summary."""
    from rosa_client.recording.bag import BagError
    from rosa_sim import timeline

    try:
        timeline.write(bag, picture)
    except (OSError, BagError) as error:
        say.line(f"no timeline picture: {error}")
        return None
    return picture


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
    """Relative to the current folder, when it is inside."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--episodes", type=int, help=f"how many (default {EPISODES}; {EPISODES_WITH_FAULT} with --fault)"
    )
    parser.add_argument(
        "--fault",
        default="",
        metavar="NAME",
        help="what goes wrong in each episode; `list` prints what there is",
    )
    parser.add_argument(
        "--fault-seconds", type=float, default=0.0, help="for how long (default: see the fault)"
    )
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
    parser.add_argument("--no-video", action="store_true", help="do not render the video")
    args = parser.parse_args()
    if args.episodes is None:
        args.episodes = EPISODES_WITH_FAULT if args.fault else EPISODES
    if args.episodes < 1:
        parser.error(f"--episodes: expected at least 1, got {args.episodes}")
    return args


if __name__ == "__main__":
    raise SystemExit(main())
