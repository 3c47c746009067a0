"""What a trial prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rosa_server.models.backend import InputSpec
from rosa_server.trying.steps import GRIPPER, JOINTS, Answered, ModelTrial, unlike
from rosa_server.trying.suspicion import Suspicion

UNITS = {JOINTS: "rad", GRIPPER: "m", "step_s": "s"}
MAX_TEXT = 300


def needs_lines(needs: InputSpec) -> Iterator[str]:
    """What a model takes."""
    for camera, (height, width) in needs.images.items():
        any_size = " or smaller, resized" if camera in needs.resizes else ""
        yield f"  takes  camera {camera}: {width}x{height} px (width x height), RGB{any_size}"
    for name, length in needs.state.items():
        yield f"  takes  state {name}: {length} values{_unit(name)}"
    if not needs.images and not needs.state:
        yield "  takes  what it is given: it names no camera and no state"


def _unit(name: str) -> str:
    return f", {UNITS[name]}" if name in UNITS else ""


def given_lines(answered: Sequence[Answered]) -> Iterator[str]:
    """What the model was given, with ranges over all steps."""
    first = answered[0].step
    for camera, picture in first.images.items():
        height, width = picture.shape[:2]
        every = np.concatenate([one.step.images[camera].ravel()[::7] for one in answered])
        levels = f"levels {every.min()} to {every.max()}, mean {every.mean():.0f}"
        yield f"  given  camera {camera}: {width}x{height} px, {levels}"
    for name in first.state:
        values = np.concatenate([np.asarray(one.step.state[name]).ravel() for one in answered])
        count = f"{len(first.state[name])} values{_unit(name)}"
        yield f"  given  state {name}: {count}, {values.min():.3g} to {values.max():.3g}"
    prompts = Counter(one.step.prompt for one in answered)
    shown = ", ".join(repr(prompt) for prompt in list(prompts)[:3])
    yield f"  given  prompt: {shown if any(prompts) else 'empty'}"


def made_lines(trial: ModelTrial) -> Iterator[str]:
    """What the model answered, with ranges over all steps."""
    answered = [one for one in trial.answered if not one.unreachable] or trial.answered
    for name in answered[0].output.arrays:
        arrays = [np.asarray(one.output.arrays[name]) for one in answered if name in one.output.arrays]
        values = np.concatenate([one.astype(np.float64).ravel() for one in arrays])
        yield f"  made   {name}: {arrays[0].dtype} {arrays[0].shape}, {values.min():.4g} to {values.max():.4g}"
    yield from _columns([one for one in answered if one.path is not None])
    if not trial.step_known and answered[0].path is not None:
        yield "  made   no step_s: how long a row is was not judged"
    said = Counter(one.output.verdict for one in answered if one.output.verdict)
    if said:
        yield "  made   verdict: " + ", ".join(f"{verdict} {count} times" for verdict, count in said.items())
    texts = Counter(one.output.text for one in answered if one.output.text)
    for text, count in list(texts.items())[:3]:
        yield f"  made   text ({count} times): {text[:MAX_TEXT]!r}"
    error = unlike(answered)
    if error is not None:
        yield f"  made   moves that differ from the recorded ones by {error:.0%} of what was moved (0 %: the same)"


def _columns(answered: Sequence[Answered]) -> Iterator[str]:
    """Of the paths, which are joint positions in whatever space the answers are."""
    paths = [one.path for one in answered if one.path is not None]
    if not paths:
        return
    joints = answered[0].step.joint_count
    rows = np.concatenate([one.rows for one in paths])
    for start, stop, name, unit in ((0, joints, "joints", "rad"), (joints, rows.shape[1], "gripper", "m")):
        part = rows[:, start:stop]
        if part.size:
            which = (
                f"columns {start} to {start + part.shape[1] - 1}" if part.shape[1] > 1 else f"column {start}"
            )
            yield f"         {name}: {which}, {unit}, {part.min():.3g} to {part.max():.3g}"
    horizon, step_s = len(paths[0].rows), paths[0].step_s
    rate = f"{horizon * step_s:.2f} s, {1 / step_s:.3g} rows a second"
    yield f"         {horizon} rows of {step_s * 1000:.0f} ms: {rate}"


def time_line(answered: Sequence[Answered], load_s: float, warm_s: float) -> str:
    """How long it took."""
    ms = np.array([one.ms for one in answered])
    asked = (
        f"one answer {ms[0]:.1f} ms"
        if len(ms) == 1
        else f"{len(ms)} answers, median {np.median(ms):.1f} ms, slowest {ms.max():.1f} ms"
    )
    return f"  time   load {load_s:.1f} s, warm-up {warm_s:.1f} s, {asked}"


def memory_line(before_mb: float, after_mb: float, gpu_mb: float | None) -> str:
    """How much memory it took."""
    gpu = f", on the GPU {gpu_mb:.0f} MB at most" if gpu_mb is not None else ""
    return f"  memory {max(0.0, after_mb - before_mb):.0f} MB more than before loading{gpu}"


def suspicion_lines(found: Sequence[Suspicion], compared: bool) -> Iterator[str]:
    """What looks wrong, or that nothing does and how much was looked at."""
    for one in found:
        yield f"  wrong? {one.line()}"
    if not found:
        what = "compared with what was recorded" if compared else "not compared: no recording (--run FILE)"
        yield f"  nothing looks wrong ({what})"


def body(
    trial: ModelTrial,
    found: Sequence[Suspicion],
    needs: InputSpec,
    load_s: float,
    memory_mb: float,
    notes: Sequence[str],
) -> dict[str, Any]:
    """Everything, for `--json`."""
    arrays: Mapping[str, Any] = trial.answered[0].output.arrays
    return {
        "component": trial.component,
        "takes": {"images": dict(needs.images), "state": dict(needs.state)},
        "steps": len(trial.answered),
        "made": {
            name: {"shape": list(np.shape(one)), "dtype": str(np.asarray(one).dtype)}
            for name, one in arrays.items()
        },
        "verdicts": Counter(one.output.verdict for one in trial.answered if one.output.verdict),
        "texts": [one.output.text for one in trial.answered if one.output.text][:20],
        "unlike_recorded": unlike(trial.answered),
        "median_ms": float(np.median([one.ms for one in trial.answered])),
        "load_s": load_s,
        "memory_mb": memory_mb,
        "suspicions": [{"cause": one.cause, "found": one.found, "do": one.do} for one in found],
        "notes": list(notes),
    }
