"""`make demo`: server, ROS 2 nodes and simulated Panda, a number of episodes, a table, a timeline and a video.

Everything runs as on a real cell: each part in its own process, cameras over ROS 2, requests over ZeroMQ, the learned
models behind `rosa serve`. What the simulator adds is the physics, the scene of each episode, and the truth.

With `--fault NAME` (or `make demo FAULT=NAME`) something goes wrong in the middle of each episode, on purpose.
"""

from __future__ import annotations

import argparse
import sys
from datetime import datetime

from rosa_client.bringup.bringup import end_on_signals
from rosa_client.bringup.graph import Robot, robot_graph
from rosa_client.bringup.supervisor import BringupError
from rosa_contract.config.factory import load_factory
from rosa_contract.config.tasks import SYSTEM2
from rosa_contract.errors import ContractError
from rosa_contract.say import say as tell
from rosa_server.serving.served import check_served
from rosa_sim.controller.graph import CELL, behind_ros2_control
from rosa_sim.demo import report, sharing, video
from rosa_sim.demo.arguments import ROOT, TASKS, UNRECORDED, parse
from rosa_sim.demo.episodes import EpisodeError, EpisodeRunner, nobody, stand_in
from rosa_sim.demo.episodes import episodes as watch
from rosa_sim.demo.fault_story import FaultStory
from rosa_sim.demo.judge import judge_of
from rosa_sim.demo.ports import on_free_ports
from rosa_sim.demo.progress import DemoProgress, shown
from rosa_sim.demo.records import Records
from rosa_sim.faults.cell import PLACES, FaultyCell, set_up
from rosa_sim.faults.inject import Injector
from rosa_sim.faults.summary import FaultRun, table
from rosa_sim.faults.table import fault as fault_called
from rosa_sim.faults.table import listing

FAULT_AT = (3, 0.1)  # the fault begins this many s after this chunk began to play


def main() -> int:
    args = parse()
    if args.fault == "list":
        tell(listing())
        return 0
    try:
        injected = fault_called(args.fault) if args.fault else None
        factory = load_factory(args.config)
        if not args.gateway:
            check_served(factory, str(args.config))
        folder = args.out / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        folder.mkdir(parents=True)
        config = args.config if args.gateway else on_free_ports(args.config, factory, folder)
        if config != args.config:
            factory = load_factory(config)
            tell(f"a port of {args.config} is in use: this demo has its server on {factory.gateway.bind}")
        robot = Robot(
            namespace=args.namespace,
            config=str(config),
            robot=str(args.robot),
            gateway=args.gateway or factory.gateway.bind,
            keys=args.keys,
            record=str(folder / "run.mcap"),
        )
        judge = judge_of(args.task, factory.tasks[factory.robot_fleet[0].task])
        places = {injected.place} & set(PLACES) if injected is not None else set()
        made = set_up(robot, places, folder / "faults")
    except ContractError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"--out: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    task = factory.robot_fleet[0].task
    # What has the physics, and with it the scene.
    graph, scene = (behind_ros2_control, CELL) if args.arm == "ros2_control" else (robot_graph, "arm_node")
    say = DemoProgress()
    episodes: list[report.Episode] = []
    shots: list[video.Shot] = []
    fault_runs: list[FaultRun] = []
    saved: sharing.Sharing | None = None
    records = Records(folder, say, TASKS[args.task].scene)
    status = 0
    say.line(f"run folder {shown(folder)}; logs in {shown(folder / 'logs')}")
    check_signals = end_on_signals()

    def alive() -> str:
        check_signals()
        for line in cell.bringup.news():
            say.line(line)
        return cell.bringup.failure()

    try:
        with (
            FaultyCell(made, folder / "logs", last=True, graph=graph, serves=not args.gateway) as cell,
            watch(
                args.namespace,
                task,
                alive=alive,
                on_progress=say.status,
                operator=nobody if args.operator else stand_in,
                scene=scene,
                judge=judge,
            ) as runner,
        ):
            shots = runner.shots
            run = DemoRun(args, cell, runner, say, fault_runs)
            runner.wait_ready(120.0)
            server = args.gateway or report.counted(len(factory.models), "served model")
            say.line(f"{task} with {server}; {report.counted(args.episodes, 'episode')}")
            if judge is not None:
                say.line(f"rule: {factory.tasks[task].components[SYSTEM2].prompt}")
                say.line("left and right are the robot's, which the film sees from the front")
            say.line("")
            say.line(report.header())
            for number in range(1, args.episodes + 1):
                episode = run.episode(number)
                episodes.append(episode)
                say.line(report.row(episode))
                extra = {
                    "config": str(args.config),
                    "complete": number == args.episodes,
                    "faults": [one.plain() for one in fault_runs],
                }
                records.summary(episodes, extra)
            run.close()
            saved = None if args.gateway else sharing.read(factory.gateway.metrics_port)
            records.summary(episodes, {**extra, "sharing": saved.plain() if saved else None})
            if saved:
                say.line(f"\n{saved.line()}")
            records.incomplete |= bool(cell.bringup.unlogged)
    except (EpisodeError, BringupError) as error:
        say.line(f"\nstopped: {error}")
        status = 1
    except KeyboardInterrupt:
        say.line("\nstopped by Ctrl-C")
        status = 130
    if not episodes:
        return status
    end_on_signals()  # once more: Ctrl-C ends what follows, too
    try:
        records.close(episodes, [] if args.no_video else shots)
        if fault_runs:
            say.line(f"\n{table(fault_runs)}")
        if args.result:
            results = ROOT / "benchmarks" / "results"
            more = [saved.row()] if saved else []
            name = TASKS[args.task].result
            written = records.try_to(lambda: report.write_result(results, episodes, name, more))
            say.line(f"result    {shown(written)}" if written else "no result")
    except KeyboardInterrupt:
        say.line("\nstopped by Ctrl-C")
        return 130
    return status or judged(episodes, fault_runs) or (UNRECORDED if records.incomplete else 0)


def judged(episodes: list[report.Episode], fault_runs: list[FaultRun]) -> int:
    """0 when the run did what it should: most episodes succeeded, or every fault ended as promised."""
    if fault_runs:
        return 0 if not any(one.problems for one in fault_runs) else 1
    return 0 if sum(episode.success for episode in episodes) >= 0.9 * len(episodes) else 1


class DemoRun:
    """Runs the episodes, each with the fault in its middle if there is one."""

    def __init__(
        self,
        args: argparse.Namespace,
        cell: FaultyCell,
        runner: EpisodeRunner,
        say: DemoProgress,
        fault_runs: list[FaultRun],
    ) -> None:
        self._args, self._runner, self._fault_runs = args, runner, fault_runs
        self._injector: Injector | None = None
        if args.fault:
            self._injector = Injector(cell, runner.node)
            self._story = FaultStory(runner, self._injector, say=say.line)
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


if __name__ == "__main__":
    raise SystemExit(main())
