"""Teaches the eyes where things are: each of the twelve points in each camera's picture, and whether it can be seen.

A colour-named map is learned in some hundred steps this way; from the actions alone it would take many thousand. Then
the eyes stay as they are, and what they see of every look is stored: the transformer trains on small arrays.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from rosa_server.models.panda.common import CAMERAS
from rosa_server.models.panda.vision import load_weights, save_weights, to_tensor
from rosa_server.models.vla.config import SHIPPED
from rosa_server.models.vla.eyes import PointEyes
from rosa_sim.training.data.dataset import POINTS, Data, load
from rosa_sim.training.data.looks import KEYPOINTS
from rosa_sim.training.data.pictures import shifted
from rosa_sim.training.networks.learn import seen_once, train
from rosa_sim.training.networks.precision import mixed

SHIFT = 3  # pixels that a picture is moved by, with its points
VIEWS = 2  # of each look: as it is, and with other light and noise
PIXELS = 96
# Of each point in the loss: white and grey blocks and hands are hard to tell from bins, table and arm, and matter most.
HARD = (1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 1.0, 0.5, 0.5, 5.0, 0.5)


def fit_camera(folder: Path, camera: str, steps: int, work: Path, device: str) -> Path:
    """One camera's eyes, as `work/eyes_CAMERA.weights.safetensors`; continues from its checkpoint."""
    other = CAMERAS[1 - CAMERAS.index(camera)]
    data = load(folder, "train", without=(other,))
    marks = torch.from_numpy(data[f"pixels_{camera}"])

    def loss_of(network: nn.Module, rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        assert isinstance(network, PointEyes)
        pictures, moved = shifted(data[camera][rows], rng, SHIFT)
        target = marks[rows].clone()
        target[..., :2] += torch.from_numpy(moved[:, None].astype("f4")) / PIXELS
        return eyes_loss(network, relit(to_tensor(pictures), rng).to(device), target.to(device))

    torch.manual_seed(CAMERAS.index(camera))
    eyes = PointEyes(SHIPPED.points).to(device)
    name = f"eyes_{camera}"
    weights = np.ones(len(marks)) + 0.5 * data["settled"]
    average = train(eyes, loss_of, weights, steps, work / f"{name}.safetensors", name, batch=64, rate=2e-3)
    path = work / f"{name}.weights.safetensors"
    save_weights(average.cpu(), path, {"steps": str(steps), "samples": str(len(marks))})
    return path


def eyes_loss(eyes: PointEyes, pictures: Tensor, marks: Tensor) -> Tensor:
    """Pictures `(n, 3, 96, 96)`, marks `(n, 12, 3)`: u, v in 0..1, visible."""
    with mixed(pictures.device.type):
        maps = eyes.maps(pictures)
    maps = maps.float()
    found = eyes.points_of(maps)
    inside = ((marks[..., :2] > 0.0) & (marks[..., :2] < 1.0)).all(dim=-1)
    visible = (marks[..., 2] > 0.5) & inside
    cell, share = cells_of(marks[..., :2].clamp(0.0, 1.0))  # (n, 12, 4) each
    likely = torch.log_softmax(maps.flatten(2), dim=-1).gather(2, cell)
    heat = -(likely * share).sum(dim=-1)
    where = functional.smooth_l1_loss(
        found[..., :2], in_eyes(marks[..., :2]), beta=0.02, reduction="none"
    ).sum(dim=-1)
    hard = torch.tensor(HARD, device=maps.device)
    points = ((heat + 10.0 * where) * visible * hard).sum() / (visible * hard).sum().clamp(min=1.0)
    presence = functional.binary_cross_entropy_with_logits(
        found[..., 2], visible.float(), weight=hard.expand_as(visible)
    )
    return points + 3.0 * presence


def in_eyes(uv: Tensor) -> Tensor:
    """Places 0..1 of a picture -> what the eyes say of them, -1..1 from the first to the last cell's middle."""
    return ((uv * PIXELS - 0.5) / 4) / ((PointEyes.cells - 1) / 2) - 1.0


def cells_of(uv: Tensor) -> tuple[Tensor, Tensor]:
    """Places `(..., 2)` -> the four cells around each `(..., 4)`, and their shares, by distance."""
    last = PointEyes.cells - 1
    at = ((in_eyes(uv) + 1.0) * last / 2).clamp(0.0, last)
    low = at.floor().clamp(max=last - 1)
    part = at - low
    x, y = low[..., 0].long(), low[..., 1].long()
    right, down = part[..., 0], part[..., 1]
    cells = torch.stack([y * 24 + x, y * 24 + x + 1, (y + 1) * 24 + x, (y + 1) * 24 + x + 1], dim=-1)
    shares = torch.stack(
        [(1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right], dim=-1
    )
    return cells, shares


def relit(pictures: Tensor, rng: np.random.Generator) -> Tensor:
    """Pictures in -1..1 with a small random tint, brightness and noise."""
    n = len(pictures)
    gain = rng.uniform(0.75, 1.2, (n, 1, 1, 1)) * rng.uniform(0.94, 1.06, (n, 3, 1, 1))
    light = 0.5 * (pictures + 1.0) * torch.from_numpy(gain.astype("f4"))
    grain = _GRAIN[rng.integers(0, len(_GRAIN), n)]
    return (light + grain).clamp_(0.0, 1.0).mul_(2.0).sub_(1.0)


_GRAIN = 0.01 * torch.randn(32, 3, 96, 96, generator=torch.Generator().manual_seed(0))


def eyes_of(work: Path, camera: str) -> PointEyes:
    """The trained eyes of a camera."""
    eyes = PointEyes(SHIPPED.points)
    load_weights(eyes, work / f"eyes_{camera}.weights.safetensors")
    return eyes.eval()


def features(data: Data, work: Path, name: str, views: int = VIEWS) -> NDArray[np.float16]:
    """What the eyes see of every look `(views, n, cameras, 12, 3)`; kept in a file until the eyes are trained anew."""
    newest = max((work / f"eyes_{camera}.weights.safetensors").stat().st_mtime for camera in CAMERAS)
    eyes = {camera: eyes_of(work, camera) for camera in CAMERAS}
    rng = np.random.default_rng(12)

    def see(rows: slice, view: int) -> Tensor:
        pictures = [to_tensor(data[camera][rows]) for camera in CAMERAS]
        as_seen = [relit(one, rng) if view else one for one in pictures]
        return torch.stack([eyes[name](one) for name, one in zip(CAMERAS, as_seen, strict=True)], dim=1)

    return seen_once(work / f"{name}.npy", (views, len(data["front"]), len(CAMERAS), POINTS, 3), see, newest)


def report(data: Data, seen: NDArray[np.floating]) -> list[dict[str, object]]:
    """How well the eyes do: features `(n, cameras, 12, 3)` against the marks; a row for each camera and point."""
    rows: list[dict[str, object]] = []
    for number, camera in enumerate(CAMERAS):
        marks = torch.from_numpy(data[f"pixels_{camera}"])
        true, found = in_eyes(marks[..., :2]).numpy(), seen[:, number].astype(np.float32)
        visible = marks[..., 2].numpy() > 0.5
        said = found[..., 2] > 0.0
        # The eyes draw a doubtful point to the middle; undone here.
        share = np.maximum(0.5 * (found[..., 2:] + 1.0), 1e-3)
        off = np.linalg.norm(found[..., :2] / share - true, axis=-1) * (PointEyes.cells - 1) / 2 * 4
        for point, name in enumerate(KEYPOINTS):
            seen_of_it = visible[:, point]
            pixels = off[:, point][seen_of_it & said[:, point]]
            rows.append(
                {
                    "what": f"eyes, {camera}: {name}",
                    "visible": int(seen_of_it.sum()),
                    "found": _mean(said[seen_of_it, point]),
                    "invented": _mean(said[~seen_of_it, point]),
                    "median_px": round(float(np.median(pixels)), 2) if len(pixels) else None,
                    "p90_px": round(float(np.percentile(pixels, 90)), 2) if len(pixels) else None,
                }
            )
    return rows


def _mean(flags: NDArray[np.bool_]) -> float | None:
    return round(float(flags.mean()), 4) if len(flags) else None
