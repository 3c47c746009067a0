"""Measuring what the pictures of a request cost the machine that a model runs on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import numpy as np
from numpy.typing import NDArray

from rosa_contract.wire.images import decode_image, encode_image
from rosa_server.models.backend import Backend, InputSpec
from rosa_server.scheduler.profiles.measure import random_input
from rosa_server.scheduler.profiles.profile import CameraDecoding, Decoding
from rosa_server.timing.decoding import MAX_THREADS

RUNS = 9  # of each size and thread; the first does not count
NOISE = 5.5  # of a camera, in levels: a 640x480 JPEG then has about 60 kB
Clock = Callable[[], float]


def decoding_of(
    sizes: Mapping[str, tuple[int, int]],
    model_cores: float,
    cores: float | None = None,
    clock: Clock = time.thread_time,
) -> Decoding:
    """What pictures of these sizes cost, camera -> (height, width).

    `model_cores`: that the model keeps busy while it runs. `cores`: those that this process may use. `clock`: CPU time.
    """
    cores = cores or len(os.sched_getaffinity(0))
    threads = max(1, min(MAX_THREADS, round(cores)))
    by_size = {size: _decode_ms(size, threads, clock) for size in dict.fromkeys(sizes.values())}
    cameras = tuple(
        CameraDecoding(name, height, width, by_size[height, width]) for name, (height, width) in sizes.items()
    )
    return Decoding(cameras, cores, model_cores)


def model_cores(backend: Backend, needs: InputSpec, component: str) -> float:
    """How many cores a model that runs one request keeps busy: all threads of this process."""
    batch = [random_input(needs, component, np.random.default_rng(0))]
    backend.infer(batch)
    began_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(RUNS):
        backend.infer(batch)
    wall_s = time.perf_counter() - began_s
    return (time.process_time() - cpu_s) / wall_s if wall_s > 0 else 0.0


def _decode_ms(size: tuple[int, int], threads: int, clock: Clock) -> float:
    """By as many threads as a worker has, at the same time: they share caches, and often the units of one core."""
    image = encode_image(camera_like(*size))

    def decode(_: int) -> list[float]:
        into, took = np.empty((*size, 3), np.uint8), []
        for _ in range(RUNS):
            began_s = clock()
            decode_image(image, into)
            took.append(1000 * (clock() - began_s))
        return took[1:]

    with ThreadPoolExecutor(threads) as pool:
        found = [ms for took in pool.map(decode, range(threads)) for ms in took]
    return max(1e-3, median(found))


def camera_like(height: int, width: int) -> NDArray[np.uint8]:
    """(height, width, 3) uint8: smooth, with edges and the noise of a camera, so that its JPEG has a usual size."""
    rows, columns = np.mgrid[0:height, 0:width]
    smooth = np.stack(
        [127 + 90 * np.sin(rows / 61 + columns / (70 + 30 * band)) for band in range(3)], axis=2
    )
    smooth[height // 3 : height // 2, width // 3 : width // 2] = 200
    noise = np.random.default_rng(1).normal(size=smooth.shape)
    made: NDArray[np.uint8] = (smooth + NOISE * noise).clip(0, 255).astype(np.uint8)
    return made
