"""`rosa try MODEL`: load one model, ask it once or along a recording, and say what looks wrong."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np

from rosa_contract.config.adapter import JOINT_UNITS
from rosa_contract.config.conventions import FINGER_PAIR, GRIPPERS, WIDTH
from rosa_contract.config.factory import Factory
from rosa_contract.config.robot import RobotSpec, hello_of, load_robot
from rosa_contract.config.tasks import MONITOR, SAFETY, SYSTEM1, SYSTEM2
from rosa_contract.errors import CausedError, ConfigError, ContractError
from rosa_contract.wording import nearest
from rosa_server.commands.chosen import add_choice, chosen
from rosa_server.models.adapters.unmapped import robot_file_problems
from rosa_server.models.backend import Backend, InputSpec
from rosa_server.models.checksums import verify
from rosa_server.models.registry import check_loaded
from rosa_server.serving.core.sessions.fit import unfit
from rosa_server.serving.worker.elsewhere import backend_of
from rosa_server.trying import words
from rosa_server.trying.asker import TrialAsker, gpu_memory_mb, memory_mb
from rosa_server.trying.episodes import Units, is_dataset, read_episode
from rosa_server.trying.judges import judge
from rosa_server.trying.picture import draw
from rosa_server.trying.recordings import read_steps
from rosa_server.trying.spaces import OtherSpaces
from rosa_server.trying.steps import GRIPPER, JOINTS, Array, TrialStep
from rosa_server.trying.suspicion import CAUSES
from rosa_server.trying.trial import TriedRobot, try_model

SUSPICIOUS = 3  # exit status: the model answered, and something looks wrong
ORDER = (SYSTEM1, SYSTEM2, MONITOR, SAFETY)


class TryError(CausedError):
    """The model cannot be tried."""

    CAUSES: ClassVar = {
        "bad_input": "a picture or a state that was given cannot be used, or one that the model takes is missing",
        "model_failed": "the model raised an error",
    }


def add_parser(commands: Any) -> argparse.ArgumentParser:
    causes = "\n".join(f"  {cause:22}{meaning}" for cause, meaning in CAUSES.items())
    parser: argparse.ArgumentParser = commands.add_parser(
        "try",
        help="run one model on a single input or a recording and report what looks wrong",
        description="Load one model and ask it once (--image, --state, --prompt) or along a recording (--run): prints"
        " what it took and made, how long that took, and what looks wrong. Nothing is served and no robot is needed."
        f"\n\nWhat it can find:\n{causes}",
        epilog="Exit status: 0 nothing looks wrong, 2 wrong input or the model failed, 3 something looks wrong.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_choice(parser)
    parser.add_argument(
        "--component",
        help="component to call the model as (default: the first one in the factory file that uses it)",
    )
    parser.add_argument("--robot", type=Path, help="robot file: joints, limits, home pose, gripper")
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="CAMERA=FILE",
        help="image file to use as this camera's picture",
    )
    parser.add_argument(
        "--state", action="append", default=[], metavar="NAME=V,V,...", help="state values, in rad and m"
    )
    parser.add_argument(
        "--prompt", help="prompt for the model (default: the recorded one, or the factory file's)"
    )
    parser.add_argument(
        "--run",
        dest="recording",
        type=Path,
        metavar="FILE",
        help="recording to replay through the model: an MCAP file or a LeRobot dataset folder",
    )
    parser.add_argument(
        "--episode", type=int, default=0, help="for a LeRobot dataset: episode number, from 0"
    )
    parser.add_argument(
        "--recorded-unit",
        default="rad",
        choices=[name for name in JOINT_UNITS if name not in ("", "m", "cm", "mm")],
        help="for a LeRobot dataset: joint unit; range_m100_100 is LeRobot's own unit without `use_degrees`,"
        " and needs --robot",
    )
    parser.add_argument(
        "--recorded-gripper",
        default=WIDTH,
        choices=[name for name in GRIPPERS if name != FINGER_PAIR],
        help="for a LeRobot dataset: gripper convention (docs/bring_your_own.md)",
    )
    parser.add_argument("--namespace", default="", help="which robot, if the recording has several")
    parser.add_argument(
        "--steps", type=int, default=30, help="maximum number of time steps taken from the recording"
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="write a PNG of predicted and recorded actions (default with --run: try.png)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(arguments: argparse.Namespace) -> int:
    model, options, factory = chosen(arguments)
    robot = load_robot(arguments.robot) if arguments.robot else None
    component, prompt, period_s = _component(arguments, factory)
    if arguments.prompt is not None:
        prompt = arguments.prompt
    verify(model.sha256, {**model.options, **options})  # a recording must not be judged with other weights
    before_mb, began_s = memory_mb(), time.perf_counter()
    backend = backend_of(arguments.model, model, **options)
    try:
        _guarded("load", backend.load)
        check_loaded(model.backend, backend)
        loaded_s = time.perf_counter()
        needs = backend.input_spec
        steps = _steps(arguments, needs, robot, component, prompt)
        _guarded("warm_up", backend.warm_up)
        warm_s = time.perf_counter()
        asker = TrialAsker(backend, component, period_s, OtherSpaces(robot), say=_say)
        if any(JOINTS in one.state and not one.placed for one in steps):
            asker.notes.append(
                "nobody says where the robot is (--robot, or --state joint_position=...): it is given zeros, and how"
                " far the actions begin from there is not judged"
            )
        body = replace(_body_of(robot), misfit=_misfit(arguments.model, component, robot, backend))
        trial = _guarded("infer", lambda: try_model(asker, steps, body))
        after_mb, gpu_mb = memory_mb(), gpu_memory_mb()
    finally:
        backend.close()
    found = judge(trial)
    compared = any(one.step.recorded is not None for one in trial.answered)
    target = arguments.plot or (Path("try.png") if arguments.recording else None)
    drawn = target is not None and any(one.path is not None for one in trial.answered)
    try:
        if drawn and target is not None:
            draw(trial, f"{arguments.model}, {component}", target)
    except ImportError as error:
        drawn = False
        asker.notes.append(f"not drawn: {error}; pip install matplotlib")
    if arguments.json:
        told = words.body(trial, found, needs, loaded_s - began_s, after_mb - before_mb, asker.notes)
        print(json.dumps(told, indent=2))
        return SUSPICIOUS if found else 0
    print(f"{arguments.model}: backend {model.backend}, asked as {component}")
    lines = [
        *words.needs_lines(needs),
        *words.given_lines(trial.answered),
        *words.made_lines(trial),
        words.time_line(trial.answered, loaded_s - began_s, warm_s - loaded_s),
        words.memory_line(before_mb, after_mb, gpu_mb),
        *[f"  note   {note}" for note in asker.notes],
        *words.suspicion_lines(found, compared),
    ]
    print("\n".join(lines))
    if drawn:
        print(f"  drew   {target}")
    return SUSPICIOUS if found else 0


def _say(words: str) -> None:
    print(f"rosa try: {words}", file=sys.stderr)


def _guarded(what: str, call: Any) -> Any:
    """What a model raises, in one line."""
    try:
        return call()
    except ContractError:
        raise
    except Exception as error:  # a model may raise anything
        raise TryError("model_failed", f"{what}: {type(error).__name__}: {error}") from error


def _component(arguments: argparse.Namespace, factory: Factory | None) -> tuple[str, str, float | None]:
    """Which component asks, its prompt, and the time that a chunk fills where the model does not say."""
    served = {
        name: (one.prompt, task.pipeline.action_period_ms / 1000)
        for task in (factory.tasks.values() if factory is not None else ())
        for name, one in task.components.items()
        if one.model == arguments.model
    }
    order = [name for name in ORDER if name in served] + [name for name in served if name not in ORDER]
    component = arguments.component or (order[0] if order else SYSTEM1)
    prompt, period_s = served.get(component, ("", None))
    return component, prompt, period_s


def _body_of(robot: RobotSpec | None) -> TriedRobot:
    if robot is None:
        return TriedRobot()
    low, high = (np.array(one) for one in (robot.limits.position_min_rad, robot.limits.position_max_rad))
    grippers = tuple((one.min_m, one.max_m) for one in robot.grippers.values())
    arms = tuple(limb.joints for limb in robot.limbs)
    return TriedRobot((low, high), grippers, len(robot.joints) + len(grippers), robot.joints, arms)


def _misfit(model: str, component: str, robot: RobotSpec | None, backend: Backend) -> str:
    """Why the gateway would refuse this robot; empty: it would not."""
    if robot is None:
        return ""
    needs, adapter = backend.input_spec, getattr(backend, "resolved", None)
    refusal = unfit(hello_of("robot", "", robot), {component: model}, lambda _: needs)
    found = [refusal.reason] if refusal is not None else []
    if adapter is not None:
        found += robot_file_problems(adapter, [(one.min_m, one.max_m) for one in robot.grippers.values()])
    return "; ".join(found)


def _steps(
    arguments: argparse.Namespace, needs: InputSpec, robot: RobotSpec | None, component: str, prompt: str
) -> list[TrialStep]:
    if arguments.recording is not None:
        joints = robot.joints if robot is not None else ()
        cameras = list(needs.images)
        if is_dataset(arguments.recording):
            steps = read_episode(
                arguments.recording,
                cameras,
                joints,
                _units(arguments, robot),
                arguments.episode,
                arguments.steps,
            )
        else:
            count = len(robot.grippers) if robot is not None else needs.state.get(GRIPPER, 1)
            steps = read_steps(
                arguments.recording, cameras, joints, arguments.namespace, arguments.steps, component, count
            )
        told = arguments.prompt is not None
        steps = [replace(one, prompt=prompt if told else one.prompt or prompt) for one in steps]
        return [
            replace(one, images={camera: _sized(camera, one.images[camera], needs) for camera in cameras})
            for one in steps
        ]
    images = {
        camera: _sized(camera, picture, needs)
        for camera, picture in _pictures(arguments.image).items()
        if _is_taken(camera, needs)
    }
    if missing := [camera for camera in needs.images if camera not in images]:
        sizes = [f"--image {one}=FILE ({needs.images[one][1]}x{needs.images[one][0]} px)" for one in missing]
        raise TryError(
            "bad_input", f"the model takes more pictures: {', '.join(sizes)}; or give a recording, --run FILE"
        )
    given = _states(arguments.state)
    lengths = dict(needs.state)
    if (
        robot is not None and needs.unused is None
    ):  # it sends what it has, to a model that names nothing as well
        lengths = dict(hello_of("robot", "", robot).state) | lengths
    state = {name: given.get(name, _usual(name, length, robot)) for name, length in lengths.items()} | given
    return [TrialStep(0.0, images, state, prompt, placed=robot is not None or JOINTS in given)]


def _units(arguments: argparse.Namespace, robot: RobotSpec | None) -> Units:
    body = _body_of(robot)
    given = Units(arguments.recorded_unit, arguments.recorded_gripper, limits_rad=body.limits_rad)
    return replace(given, ranges=body.grippers_m) if body.grippers_m else given


def _pictures(given: Sequence[str]) -> dict[str, Any]:
    pictures = {}
    for text in given:
        camera, separator, path = text.partition("=")
        bgr = cv2.imread(path, cv2.IMREAD_COLOR) if separator else None
        if bgr is None:
            raise TryError("bad_input", f"--image: expected CAMERA=FILE with a picture, got {text!r}")
        pictures[camera] = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
    return pictures


def _is_taken(camera: str, needs: InputSpec) -> bool:
    """Whether a robot's picture reaches the model; what the adapter leaves out on purpose does not."""
    if camera in needs.images or needs.unused is None:
        return True
    if camera in needs.unused:
        print(
            f"rosa try: camera {camera} is `unused` in the adapter: the model is not shown it",
            file=sys.stderr,
        )
        return False
    hint = nearest(camera, needs.images)
    raise TryError(
        "bad_input",
        f"--image: the adapter maps no camera {camera!r}{hint}; it takes {', '.join(needs.images)}",
    )


def _sized(camera: str, picture: Any, needs: InputSpec) -> Any:
    """In the size that the model takes: a robot with another one would be refused, a picture of a try is resized."""
    size = needs.images.get(camera)
    if size is None or camera in needs.resizes or picture.shape[:2] == tuple(size):
        return picture
    print(
        f"rosa try: camera {camera}: {picture.shape[1]}x{picture.shape[0]} px resized to {size[1]}x{size[0]}; a robot"
        " with such a camera is refused unless an adapter resizes",
        file=sys.stderr,
    )
    return cv2.resize(picture, (size[1], size[0]), interpolation=cv2.INTER_AREA)


def _states(given: Sequence[str]) -> dict[str, Array]:
    states: dict[str, Array] = {}
    for text in given:
        name, separator, values = text.partition("=")
        try:
            if not separator:
                raise ValueError
            states[name] = np.array([float(one) for one in values.split(",")], np.float32)
        except ValueError:
            raise ConfigError("--state", [f"expected NAME=V,V,..., got {text!r}"]) from None
    return states


def _usual(name: str, length: int, robot: RobotSpec | None) -> Array:
    """What a state is where nobody said: the home pose and a half open gripper of the robot file, or zeros."""
    known: Mapping[str, Any] = {}
    if robot is not None:
        half_m = [(one.min_m + one.max_m) / 2 for one in robot.grippers.values()]
        known = {JOINTS: robot.home_rad, GRIPPER: half_m}
    values = np.array(known.get(name, np.zeros(length)), np.float32)
    return values if len(values) == length else np.zeros(length, np.float32)
