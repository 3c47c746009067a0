"""The training loop of every network: AdamW, cosine rate, averaged weights, checkpoints; and varied pictures."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from tqdm import tqdm

from rosa_server.models.panda.vision import WEIGHTS_DIR, save_weights, to_tensor
from rosa_sim.training.data.pictures import shifted

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results"
CHECKPOINT_EVERY = 250
EMA = 0.995


def augmented(images: NDArray[np.uint8], rng: np.random.Generator, shift: int) -> Tensor:
    """`(n, h, w, 3)` bytes -> pictures for the network, each with a small random shift, brightness, tint and noise."""
    n, pictures = len(images), to_tensor(shifted(images, rng, shift)[0])
    gain = torch.from_numpy(
        (rng.uniform(0.8, 1.2, (n, 1, 1, 1)) * rng.uniform(0.95, 1.05, (n, 3, 1, 1))).astype("f4")
    )
    offset = torch.from_numpy(rng.uniform(-0.12, 0.12, (n, 1, 1, 1)).astype("f4"))
    grain = _GRAIN[rng.integers(0, len(_GRAIN), n)]
    return pictures.mul_(gain).add_(offset).add_(grain).clamp_(-1.0, 1.0)


# Drawn once: new noise for every batch is slow.
_GRAIN = 0.02 * torch.randn(64, 3, 96, 96, generator=torch.Generator().manual_seed(0))


def train(
    network: nn.Module,
    loss_of: Callable[[nn.Module, NDArray[np.int64], np.random.Generator], Tensor],
    weights: NDArray[np.floating],
    steps: int,
    checkpoint: Path,
    name: str,
    batch: int = 64,
    rate: float = 8e-4,
    title: str = "",
) -> nn.Module:
    """Train `network` on rows drawn with probability `weights`; resumes at `checkpoint`; returns the average.

    `loss_of(network, rows, rng)` gives the loss of a batch of row numbers. With a `title` the losses are drawn.
    """
    torch.set_num_threads(1)
    average = copy.deepcopy(network)
    start = _resume(network, average, checkpoint)
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-3)
    rng = np.random.default_rng([3, start])
    torch.manual_seed(start)
    cumulative = np.cumsum(weights / weights.sum())
    curve, shown = list[float](), math.nan
    bar = tqdm(range(start, steps), initial=start, total=steps, desc=name, unit="step", mininterval=5.0)
    for step in bar:
        warm = min(1.0, (step - start + 1) / 100)
        for group in optimiser.param_groups:
            group["lr"] = rate * warm * (0.5 * (1.0 + math.cos(math.pi * step / steps)) * 0.98 + 0.02)
        rows = np.minimum(np.searchsorted(cumulative, rng.random(batch)), len(weights) - 1)
        loss = loss_of(network, rows, rng)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        keep = min(EMA, (step + 1) / (step + 10))
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), network.parameters(), strict=True):
                slow.lerp_(fast, 1.0 - keep)
        value = float(loss.detach())
        curve.append(value)
        shown = value if math.isnan(shown) else 0.98 * shown + 0.02 * value
        if step % 25 == 0:
            bar.set_postfix(loss=f"{shown:.4f}")
        if (step + 1) % CHECKPOINT_EVERY == 0 or step + 1 == steps:
            _save(network, average, checkpoint, step + 1)
    if title:
        _draw_curve(curve, steps, checkpoint.parent, name, title)
    return average.eval()


def ship(network: nn.Module, file: str, model: str, steps: int, samples: int) -> Path:
    """Write the weights that the product loads."""
    path = WEIGHTS_DIR / file
    save_weights(network, path, {"model": model, "steps": str(steps), "samples": str(samples)})
    return path


def seen_once(
    path: Path, shape: tuple[int, ...], see: Callable[[slice, int], Tensor], newer_than_s: float = 0.0
) -> NDArray[np.float16]:
    """What frozen eyes see of every look, `shape` is `(views, looks, ...)`; kept in the file `path`.

    `see(rows, view)` looks at some of them. A file that is older than `newer_than_s`, or of other looks, is made anew.
    """
    if path.is_file() and path.stat().st_mtime > newer_than_s:
        stored: NDArray[np.float16] = np.load(path, allow_pickle=False)
        if stored.shape == shape:
            return stored
    torch.set_num_threads(1)
    seen = np.empty(shape, np.float16)
    with torch.inference_mode():
        for start in tqdm(range(0, shape[1], 64), desc="look", unit="batch", mininterval=5.0):
            rows = slice(start, min(start + 64, shape[1]))
            for view in range(shape[0]):
                seen[view, rows] = see(rows, view).numpy()
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, seen)
    return seen


def _save(network: nn.Module, average: nn.Module, path: Path, step: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {f"network.{k}": v.contiguous() for k, v in network.state_dict().items()}
    tensors |= {f"average.{k}": v.contiguous() for k, v in average.state_dict().items()}
    scratch = path.with_suffix(".tmp")
    save_file(tensors, str(scratch), metadata={"step": str(step)})
    scratch.rename(path)


def _resume(network: nn.Module, average: nn.Module, path: Path) -> int:
    if not path.is_file():
        return 0
    tensors = load_file(str(path))
    for prefix, target in (("network.", network), ("average.", average)):
        target.load_state_dict(
            {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        )
    with safe_open(str(path), framework="pt") as file:
        metadata: dict[str, Any] = file.metadata()
    return int(metadata["step"])


def _draw_curve(curve: list[float], steps: int, work: Path, name: str, title: str) -> None:
    """The losses of a run up to step `steps`, as `work/NAME_curve.json` and as `NAME_training.png` of the results.

    A run that was continued draws the steps before it too.
    """
    if not curve:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    first, path = steps - len(curve), work / f"{name}_curve.json"
    if first > 0 and path.is_file():
        before = json.loads(path.read_text())
        if before["first_step"] <= first <= before["first_step"] + len(before["loss"]):
            curve = before["loss"][: first - before["first_step"]] + curve
            first = before["first_step"]
    path.write_text(json.dumps({"first_step": first, "loss": curve}))
    width = min(50, len(curve))
    middle = (width - 1) // 2
    smooth = np.convolve(curve, np.ones(width) / width, mode="valid")
    figure, axes = pyplot.subplots(figsize=(6, 3.2), layout="constrained")
    axes.plot(np.arange(first, steps), curve, color="0.85", linewidth=0.5)
    axes.plot(first + middle + np.arange(len(smooth)), smooth)
    axes.set(xlabel="step", ylabel="loss", title=title)
    figure.savefig(RESULTS / f"{name}_training.png", dpi=110)
    pyplot.close(figure)
