"""Does a model on a GPU wait for its pictures? Part of `python -m benchmarks.gpu.gpu`.

16 robots with two cameras of 640x480, and a network that takes a batch of them: its pictures are copied to the GPU as
bytes, resized there, and multiplied for as long as a model of 40 ms would. Pictures are JPEGs of about 60 kB, which
OpenCV decodes as in a worker, with as many threads.

model   the same pictures again and again: its own throughput
after   decoded when the model has ended, then stacked, as a worker did once
stacked decoded while the model runs, each into an array of its own, then stacked
rows    decoded while the model runs, into neighbouring rows of one array, which is pinned (`worker/rows.py`)
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks import RESULTS
from benchmarks.engines.gpu_report import Report, Row, add_arguments, device_of
from rosa_contract.wire.images import decode_image, encode_image
from rosa_server.models.stacking import Place, nowhere, stacked
from rosa_server.serving.worker.rows import Rows
from rosa_server.timing.decoding import MAX_THREADS

MODEL_MS = 40.0
ROUNDS = 3
MIN_SHARE = 0.97
INPUT = 224  # px, of the network
Batch = list[dict[str, NDArray[np.uint8]]]  # of each robot: camera -> (height, width, 3)


class Pictures:
    """The JPEGs of a fleet, and how they become arrays."""

    def __init__(self, robots: int, cameras: int, size: tuple[int, int]) -> None:
        self.robots, self.cameras, self.shape = robots, [f"camera{one}" for one in range(cameras)], (*size, 3)
        rows, columns = np.mgrid[0 : size[0], 0 : size[1]]
        smooth = 127 + 90 * np.sin(rows / 61 + columns / 90)
        grain = np.random.default_rng(1).normal(0, 3, smooth.shape)
        picture = np.repeat((smooth + grain).clip(0, 255).astype(np.uint8)[..., None], 3, axis=2)
        self._jpeg = encode_image(picture)
        self.threads = min(MAX_THREADS, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self.threads, "decode")

    def decoded(self, places: Callable[[int], Place]) -> Batch:
        """A batch, each picture where `places` says or in an array of its own."""

        def one(robot: int) -> dict[str, NDArray[np.uint8]]:
            found = {}
            for camera in self.cameras:
                found[camera] = decode_image(self._jpeg, places(robot)(camera, self.shape))
            return found

        return list(self._pool.map(one, range(self.robots)))

    def decode_ms(self) -> float:
        """Of one picture on one core."""
        began_s = time.perf_counter()
        for _ in range(10):
            decode_image(self._jpeg)
        return (time.perf_counter() - began_s) * 100

    def close(self) -> None:
        self._pool.shutdown()


class Model:
    """Takes a batch's pictures to the device, and computes there for `model_ms`."""

    def __init__(self, device: torch.device, width: int, model_ms: float) -> None:
        self.device = device
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self._weight = torch.randn(width, width, device=device, dtype=dtype) / width**0.5
        self._times = 1
        begun_s = 0.0
        for _ in range(3):
            begun_s = time.perf_counter()
            self._compute(64)
        self._times = max(1, round(64 * model_ms / 1000 / (time.perf_counter() - begun_s)))

    def _compute(self, times: int) -> float:
        state = self._weight
        for _ in range(times):
            state = state @ self._weight
        return float(state[0, 0])

    @torch.inference_mode()
    def infer(self, batch: Batch) -> float:
        """Waits for the device at its end."""
        seen: list[Tensor] = []
        for camera in batch[0]:
            bytes_ = torch.from_numpy(stacked([one[camera] for one in batch]))
            there = bytes_.to(self.device, non_blocking=True).permute(0, 3, 1, 2).float() / 255
            seen.append(torch.nn.functional.interpolate(there, (INPUT, INPUT), mode="bilinear").mean())
        return self._compute(self._times) + float(torch.stack(seen).sum())


def ways(model: Model, pictures: Pictures) -> dict[str, Callable[[float], float]]:
    """Way -> seconds -> batches a second."""

    def timed(step: Callable[[], None], seconds: float) -> float:
        step()
        began_s, count = time.perf_counter(), 0
        while not count or time.perf_counter() - began_s < seconds:
            step()
            count += 1
        return count / (time.perf_counter() - began_s)

    def own(seconds: float) -> float:
        batch = pictures.decoded(Rows(pictures.robots).next())
        return timed(lambda: _ran(model, batch), seconds)

    def after(seconds: float) -> float:
        return timed(lambda: _ran(model, pictures.decoded(lambda robot: nowhere)), seconds)

    def ahead(places: Callable[[], Callable[[int], Place]]) -> Callable[[float], float]:
        def run(seconds: float) -> float:
            with ThreadPoolExecutor(1, "ahead") as one:
                waiting: list[Future[Batch]] = [one.submit(pictures.decoded, places())]

                def step() -> None:
                    batch = waiting.pop().result()
                    waiting.append(one.submit(pictures.decoded, places()))
                    _ran(model, batch)

                return timed(step, seconds)

        return run

    rows = Rows(pictures.robots)
    return {
        "model": own,
        "after": after,
        "stacked": ahead(lambda: lambda robot: nowhere),
        "rows": ahead(rows.next),
    }


def _ran(model: Model, batch: Batch) -> None:
    model.infer(batch)


def judged(rows: Sequence[Row], cores: int) -> list[Row]:
    """The aims; with too few cores the first says what was reached."""
    share = {row["way"]: row["share"] for row in rows}
    if not share.keys() >= {"rows", "stacked"}:
        return [{"aim": "all ways are measured", "value": ", ".join(share) or "none", "holds": False}]
    few = f"; {cores} cores" if cores <= MAX_THREADS else ""
    return [
        {
            "aim": f"pictures decoded ahead into rows leave a model {100 * MIN_SHARE:.0f} % of its own throughput",
            "value": f"{100 * share['rows']:.1f} %{few}",
            "holds": share["rows"] >= MIN_SHARE,
        },
        {
            "aim": "at least as much as arrays of their own that are stacked (less 1 %)",
            "value": f"{share['rows'] / share['stacked']:.3f}x",
            "holds": share["rows"] >= 0.99 * share["stacked"],
        },
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_arguments(parser, RESULTS)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one way in one round")
    parser.add_argument("--tiny", action="store_true", help="to see that it works")
    args = parser.parse_args(arguments)
    device = device_of(parser, args)
    command = f"python -m benchmarks.gpu.gpu --part gpu_pictures --device {args.device}"
    report = Report("gpu_pictures", command, device, args.out, args.limit)
    pictures = Pictures(2, 1, (24, 32)) if args.tiny else Pictures(16, 2, (480, 640))
    model = Model(device, 64 if args.tiny else 4096, 0.1 if args.tiny else MODEL_MS)
    decode_ms = pictures.decode_ms()
    best: dict[str, float] = {}
    known: dict[str, Any] = ways(model, pictures)
    for _ in range(1 if args.tiny else ROUNDS):
        for name, way in known.items():
            if report.has_time():
                best[name] = max(best.get(name, 0.0), way(args.seconds))
    pictures.close()
    for name, hz in best.items():
        row = {"way": name, "batches_s": round(hz, 3), "share": round(hz / best["model"], 4)}
        report.add(
            row | {"robots": pictures.robots, "decode_ms": round(decode_ms, 3), "threads": pictures.threads}
        )
        print(report.rows[-1], flush=True)
    return 0 if report.finish(report.rows, judged(report.rows, os.cpu_count() or 1), None) else 1
