"""Teaches the vision-language-action model the sorting cell, on what the trained eyes see of it.

One batch teaches all roles: flow matching for System 1's chunks, cross entropy for the words of System 2, safety and
monitor, and small losses on where things are: every point, and the block and the bin that a prompt is about.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from rosa_server.engines.kv_sharing.cache import Cache
from rosa_server.models.panda.common import CAMERAS, CENTRE_M, proprioception
from rosa_server.models.panda.flow_policy import HORIZON, to_network
from rosa_server.models.vla.backend import WEIGHTS_FILE
from rosa_server.models.vla.config import SHIPPED
from rosa_server.models.vla.eyes import PointTokens
from rosa_server.models.vla.network import VlaNetwork
from rosa_server.models.vla.speech import VERDICTS, Speech, padded
from rosa_sim.training.data.dataset import Data, load, outcome_of_rule, points_in_world, target_of
from rosa_sim.training.data.words import BINS, COLOURS
from rosa_sim.training.networks.attention import Attention
from rosa_sim.training.networks.eyes import eyes_of, features, fit_camera, in_eyes
from rosa_sim.training.networks.learn import ship, train
from rosa_sim.training.networks.prompts import AskedLook, PromptAsker, class_weights, make_speech

FIELDS_PER_LOOK = 3  # (noise, time) pairs: the action expert is cheap next to the backbone
SPEAKERS = ("system2", "safety", "monitor")
SPEAKER_SHARES = (0.35, 0.35, 0.30)
SHARES = {"flow": 4.0, "place": 1.0, "target": 2.0, "words": 1.0, "look of acts": 0.5, "look of words": 0.5}
SPEAKING = 2  # every second look is asked for words as well: those sequences are the longest
BATCH, RATE = 48, 1.2e-3
JITTER = 0.008  # of a point's place, about a third of a pixel
BLUR, WRONG = (
    0.016,
    0.01,
)  # of true places: some two thirds of a pixel, and how often a point is missed or invented
FADE = 0.01  # of the points that a look loses


@dataclass(frozen=True)
class Steps:
    """How long to train: the eyes of each camera, the model until the eyes are ready, and the model in all."""

    eyes: int
    marks: int
    model: int


def fit_all(folder: Path, steps: Steps, work: Path, workers: int, device: str = "cpu") -> Path:
    """The eyes of both cameras and the model's beginning, two at a time; then the model on what the eyes see."""
    work.mkdir(parents=True, exist_ok=True)
    parts: list[tuple[Any, ...]] = [
        (fit_camera, folder, camera, steps.eyes, work, device) for camera in CAMERAS
    ]
    parts.append((fit_on_marks, folder, steps.marks, work, device))
    if workers < 2 or device != "cpu":
        for part in parts:
            _run(*part)
    else:
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            pool.starmap(_run, parts, chunksize=1)
    return fit_vla(folder, steps.model, work, device)


def _run(step: Callable[..., object], *given: Any) -> None:
    step(*given)


def fit_on_marks(folder: Path, steps: int, work: Path, device: str = "cpu") -> None:
    """The training until the eyes are ready: on the true places, with noise of the eyes' kind."""
    data = load(folder, "train", without=CAMERAS)
    _train(data, FromMarks(data), steps, work, device)


def fit_vla(folder: Path, steps: int, work: Path, device: str = "cpu") -> Path:
    """Goes on to step `steps` on what the trained eyes see; writes the weights and their words."""
    data = load(folder, "train")
    eyes = FromEyes(features(data, work, "vla_features"))
    average = _train(
        {name: one for name, one in data.items() if name not in CAMERAS}, eyes, steps, work, device
    )
    for number, camera in enumerate(CAMERAS):
        average.eyes[number].load_state_dict(eyes_of(work, camera).state_dict())
    path = ship(average, WEIGHTS_FILE, "rosa/panda-vla", steps, len(data["seed"]))
    make_speech().write(path.with_suffix(".words.json"))
    return path


def _train(data: Data, points: Points, steps: int, work: Path, device: str) -> VlaNetwork:
    """The averaged weights at step `steps`; continues from `work/vla.safetensors`."""
    torch.manual_seed(4)
    network = VlaNetwork().to(device)
    network.eyes.requires_grad_(False)
    name_points(network, make_speech())
    losses = Losses(data, points, make_speech(), device)
    done = 0

    def loss_of(network: nn.Module, rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        nonlocal done
        assert isinstance(network, VlaNetwork)
        loss, done = losses.of(network, rows, rng), done + 1
        if done % 50 == 0:
            tqdm.write(f"{done}: " + ", ".join(f"{k} {v:.3f}" for k, v in losses.parts.items()))
        return loss

    weights = np.where(data["settled"], 1.5, 1.0)
    title, checkpoint = "Training of the vision-language-action model", work / "vla.safetensors"
    average = train(network, loss_of, weights, steps, checkpoint, "vla", batch=BATCH, rate=RATE, title=title)
    assert isinstance(average, VlaNetwork)
    return average.cpu()


def name_points(network: VlaNetwork, speech: Speech) -> None:
    """The point of each block and bin starts as the word that names it, with or without a space before it."""
    tokens = network.project
    assert isinstance(tokens, PointTokens)  # a network that sees points has no other
    with torch.no_grad():
        embedding = network.embedding.weight
        for point, name in enumerate((*COLOURS, *BINS)):
            spaced, alone = speech.tokenizer.encode(f" {name}")[-1], speech.tokenizer.encode(name)
            if len(alone) == 1:
                embedding[alone[0]] = embedding[spaced]
            tokens.which[point] = embedding[spaced] * network.config.width**0.5


class Points(Protocol):
    """Where the points of a look come from."""

    def draw(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """`(n, cameras, 12, 3)`: x, y and strength, as the eyes say them."""


class FromMarks:
    """The true places of the points in the pictures, about as sharp as the eyes see them."""

    def __init__(self, data: Data) -> None:
        marks = torch.from_numpy(np.stack([data[f"pixels_{camera}"] for camera in CAMERAS], axis=1))
        self._places, self._visible = in_eyes(marks[..., :2]), marks[..., 2:] > 0.5

    def draw(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        visible = self._visible[rows]
        visible = visible ^ (torch.rand(visible.shape) < WRONG)
        doubt = (0.06 * torch.randn(visible.shape)).abs().clamp(max=0.45)
        seen = torch.where(visible, 1.0 - doubt, doubt)
        places = self._places[rows].clamp(-1.1, 1.1)
        places = places + BLUR * torch.randn(places.shape) * (0.3 + torch.rand(visible.shape))
        return torch.cat([places * seen, 2.0 * seen - 1.0], dim=-1)


class FromEyes:
    """What the trained eyes see."""

    def __init__(self, seen: NDArray[np.float16]) -> None:
        """`seen`: `(views, n, cameras, 12, 3)`."""
        self._seen = seen

    def draw(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        views = rng.integers(0, len(self._seen), len(rows))
        points = torch.from_numpy(self._seen[views, rows].astype(np.float32))
        points[..., :2] += JITTER * torch.randn(points[..., :2].shape) * (points[..., 2:] > 0)
        return points


class Losses:
    """The loss of a batch of looks. `parts`: what it was made of, the last time."""

    def __init__(self, data: Data, points: Points, speech: Speech, device: str = "cpu") -> None:
        told, tool = proprioception(data["joint_position"], data["gripper_width"])
        self._told, self._points, self._device = told, points, device
        n = len(told)
        self._chunks = torch.from_numpy(to_network(data["chunk"], tool)).reshape(n, HORIZON, 4)
        stay = np.concatenate(
            [np.repeat(tool[:, None], HORIZON, axis=1), np.full((n, HORIZON, 1), 0.08)], axis=-1
        )
        self._stay = torch.from_numpy(to_network(stay, tool)).reshape(n, HORIZON, 4)
        self._places = torch.from_numpy(_scaled(points_in_world(data)))
        self._targets = torch.from_numpy(_scaled_target(target_of(data)))
        self._asker, self._attention = PromptAsker(data, speech), Attention(speech, SHIPPED.observation)
        self._ended = torch.from_numpy((data["outcome"] != 0).astype(np.float32))
        self._step_weight = torch.ones(HORIZON, 1)
        self._step_weight[HORIZON // 2 :] = 0.4  # only the first half is executed
        outcome = np.concatenate([data["outcome"], outcome_of_rule(data)])
        weights = {
            **dict(zip(VERDICTS["monitor"], class_weights(outcome, 3), strict=True)),
            **dict(zip(("unsafe", "safe"), class_weights(data["safe"].astype(np.int64), 2), strict=True)),
        }
        self._word_weight = torch.ones(speech.tokenizer.size)
        for word, weight in weights.items():
            self._word_weight[speech.tokenizer.encode(word)[0]] = float(weight)
        self.parts: dict[str, float] = {}

    def of(self, network: VlaNetwork, rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """The sum of all roles' losses over the looks `rows`."""
        device = self._device
        points = self._points.draw(rows, rng)
        lost = torch.rand(points.shape[:-1]) < FADE
        points[lost] = torch.tensor([0.0, 0.0, -1.0])
        told = self._told[rows] + 0.005 * torch.randn(len(rows), self._told.shape[1])
        states, cache = network.understand(network.embed(points.to(device), told.to(device)))
        place = network.place(states[:, : points.shape[2]])
        parts = {"place": _distance(place, self._places[rows].to(device))}
        parts |= self._act(network, cache, rows, rng)
        parts |= self._speak(network, cache, rows, rng)
        self.parts = {name: float(part.detach()) for name, part in parts.items()}
        return torch.stack([SHARES[name] * part for name, part in parts.items()]).sum()

    def _act(
        self, network: VlaNetwork, cache: Cache, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> dict[str, Tensor]:
        asked = [self._asker.act(int(row), rng) for row in rows]
        tokens, count = padded([one.question for one in asked])
        watched: list[tuple[Tensor, Tensor]] = []
        states, longer = network.extend(cache, tokens.to(self._device), count.to(self._device), watch=watched)
        last = states[torch.arange(len(rows)), count - 1]
        targets = self._targets[rows].clone()
        targets[torch.tensor([not one.target for one in asked])] = torch.nan
        stays = torch.tensor([one.stays for one in asked])
        chunks = torch.where(stays[:, None, None], self._stay[rows], self._chunks[rows])
        weight = torch.where(stays, 0.5, 1.0 - 0.65 * self._ended[rows])
        times = FIELDS_PER_LOOK
        chunk = chunks.repeat_interleave(times, dim=0).to(self._device)
        noise = torch.randn(chunk.shape).to(self._device)
        time = torch.from_numpy(rng.random(len(chunk)).astype("f4")).to(self._device)
        noisy = noise + time[:, None, None] * (chunk - noise)
        field = network.velocity(noisy, time, longer.repeat(times))
        error = ((field - (chunk - noise)) ** 2 * self._step_weight.to(self._device)).mean(dim=(1, 2))
        each = weight.repeat_interleave(times).to(self._device)
        return {
            "flow": (error * each).sum() / each.sum(),
            "target": _distance(network.where(last), targets.to(self._device)),
            "look of acts": self._attention.loss(watched, asked),
        }

    def _speak(
        self, network: VlaNetwork, cache: Cache, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> dict[str, Tensor]:
        rows = rows[::SPEAKING]
        cache = cache.take(range(0, cache.rows, SPEAKING))
        roles = rng.choice(SPEAKERS, len(rows), p=SPEAKER_SHARES)
        asked = [self._asker.speak(str(role), int(row), rng) for role, row in zip(roles, rows, strict=True)]
        tokens, _ = padded([[*one.question, *one.answer] for one in asked])
        watched: list[tuple[Tensor, Tensor]] = []
        states, _ = network.extend(cache, tokens[:, :-1].to(self._device), watch=watched)
        at, right = _answers(asked)
        logits = network.logits(states[at[:, 0], at[:, 1]])
        word_weight = self._word_weight.to(self._device)
        loss = functional.cross_entropy(
            logits[:, : len(word_weight)], right.to(self._device), reduction="none", label_smoothing=0.01
        )
        weight = word_weight[right]
        return {
            "words": (loss * weight).sum() / len(rows),
            "look of words": self._attention.loss(watched, asked),
        }


def _answers(asked: list[AskedLook]) -> tuple[Tensor, Tensor]:
    """Which states (row, place) are to say which token."""
    at, right = [], []
    for row, one in enumerate(asked):
        for number, token in enumerate(one.answer):
            at.append((row, len(one.question) - 1 + number))
            right.append(token)
    return torch.tensor(at), torch.tensor(right)


def _scaled(points_m: NDArray[np.floating]) -> NDArray[np.float32]:
    """Metres -> about -1..1."""
    scaled: NDArray[np.float32] = ((points_m - CENTRE_M) / 0.2).astype(np.float32)
    return scaled


def _scaled_target(target_m: NDArray[np.floating]) -> NDArray[np.float32]:
    block, bin_xy = _scaled(target_m[:, :3]), (target_m[:, 3:] - CENTRE_M[:2]) / 0.2
    return np.concatenate([block, bin_xy], axis=1).astype(np.float32)


def _distance(found: Tensor, true: Tensor) -> Tensor:
    """Mean smooth distance where the truth is known (not nan)."""
    known = torch.isfinite(true)
    off = functional.smooth_l1_loss(found, torch.where(known, true, 0.0), beta=0.1, reduction="none")
    return 3.0 * (off * known).sum() / known.sum().clamp(min=1)
