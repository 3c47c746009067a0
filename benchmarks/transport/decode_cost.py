"""What decoding costs a plan: predicted by a profile, and measured with a worker that really decodes.

    python -m benchmarks.transport.decode_cost [--turns 5] [--seconds 3]

A worker process whose model sleeps as a GPU would compute, on this machine's cores. It is given batches of JPEGs as
fast as it takes them, so what it runs a second is its capacity. The prediction is made as `rosa profile` and
`rosa plan` make it: what a picture costs is measured by itself, in another process, and the times of the model are
known. Both take turns.

And what it is worth that a batch is decoded into one array (`worker/rows.py`): the same worker whose model takes its
batch as one, with and without; CPU time of the worker a batch, and the time of stacking, in which a GPU would wait.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import zmq

from benchmarks import RESULTS
from benchmarks.conclude import print_aims, write
from benchmarks.transport.path import BUDGET_MS, Row, cpu_s, running
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import encode_image
from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.emulated import EmulatedBackend
from rosa_server.models.stacking import stacked
from rosa_server.scheduler.commands.picture_cost import camera_like, decoding_of
from rosa_server.scheduler.profiles.decoding import with_decoding
from rosa_server.scheduler.profiles.profile import (
    EMULATED,
    STATIC,
    Configuration,
    Decoding,
    LatencyPoint,
    Profile,
    ServiceTime,
)
from rosa_server.serving.base.malloc import keep_freed_memory
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.worker import rows as worker_rows
from rosa_server.serving.worker.batch_worker import BatchWorker
from rosa_server.serving.worker.gateway_end import GatewayEnd

BATCH = 8
SIZE = (480, 640)
CASES = ((12, 2), (12, 4), (20, 8), (40, 2))  # ms of a batch, cameras
MAX_WRONG = 0.10
HELD = 2  # batches that a worker holds
START_S, ANSWER_S = 120, 60
WARM = 4  # batches that do not count


def images(cameras: int) -> dict[str, tuple[int, int]]:
    return {f"camera{number}": SIZE for number in range(cameras)}


class Taking(EmulatedBackend):
    """Takes the pictures of its batch as one array for each camera, as a model on a GPU does, and says how long that
    took, in microseconds."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._took_us = 0
        self.capabilities = replace(self.capabilities, counts=lambda: {"took_us": self._took_us})

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        began_s = time.thread_time()
        for camera in self.input_spec.images:
            stacked([one.images[camera] for one in batch])
        self._took_us += round(1e6 * (time.thread_time() - began_s))
        return super().infer(batch)


def worker_process(address: str, latency_ms: float, cameras: int, rows: bool = True) -> None:
    keep_freed_memory()  # as the worker's own process
    backend = Taking(latency_ms, images=images(cameras), max_batch=BATCH)
    if not rows:
        worker_rows.MAX_MB = 0  # every picture has an array of its own
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.connect(address)
        worker = BatchWorker(WorkerSpec("w1", "slow", "emulated", address), backend, GatewayEnd(socket))
        worker.announce()
        worker.run()
        worker.close()


def calibrating_process(cameras: int, pipe: Any) -> None:
    """What `rosa profile` measures, in a process of its own."""
    keep_freed_memory()
    pipe.send(decoding_of(images(cameras), model_cores=0.0))


def said(socket: zmq.Socket[bytes], limit_s: float) -> Any:
    """The next message of the worker. Raises `TimeoutError`."""
    if not socket.poll(int(1000 * limit_s)):
        raise TimeoutError(f"the worker said nothing for {limit_s:g} s")
    return codec.decode(socket.recv_multipart())


@dataclass(frozen=True)
class Worked:
    """What a worker did that never waited for a request."""

    hz: float  # requests a second
    cpu_ms: float  # of the worker, for each batch
    stack_ms: float  # of it, until the model has its batch as one array


def worked(latency_ms: float, cameras: int, seconds: float, rows: bool = True) -> Worked:
    picture = encode_image(camera_like(*SIZE))
    asked = m.Request(1, "system1", BUDGET_MS, "", {}, dict.fromkeys(images(cameras), picture))
    frames = codec.encode(asked)
    tickets = list(range(BATCH))
    with (
        tempfile.TemporaryDirectory() as folder,
        zmq.Context() as context,
        context.socket(zmq.PAIR) as socket,
    ):
        address = f"ipc://{folder}/worker"
        socket.bind(address)
        spawn = multiprocessing.get_context("spawn")
        process = spawn.Process(target=worker_process, args=(address, latency_ms, cameras, rows))
        with running(process):
            said(socket, START_S)
            begun_s, answered, sent, cpu, took_us = 0.0, 0, 0, 0.0, 0
            while True:
                while sent - answered < HELD:
                    socket.send_multipart(codec.encode(m.Execute(sent, tickets, [frames] * BATCH)))
                    sent += 1
                done = said(socket, ANSWER_S)
                assert isinstance(done, m.Executed) and not any(cause for cause, _ in done.errors), done
                answered += 1
                now_s = time.perf_counter()
                if answered == WARM:
                    begun_s, cpu, took_us = now_s, cpu_s(process.pid or 0), done.counts["took_us"]
                elif answered > WARM and now_s - begun_s >= seconds:
                    batches, passed_s = answered - WARM, now_s - begun_s
                    took_ms = (done.counts["took_us"] - took_us) / 1000
                    return Worked(
                        batches * BATCH / passed_s,
                        1000 * (cpu_s(process.pid or 0) - cpu) / batches,
                        took_ms / batches,
                    )


def predicted_hz(latency_ms: float, decoding: Decoding) -> float:
    """What a schedule counts on, requests a second."""
    own_hz = 1000 * BATCH / latency_ms
    latency = tuple(LatencyPoint(share * own_hz, *[latency_ms] * 6) for share in (0.1, 1.0))
    service = (ServiceTime(BATCH, latency_ms),)
    configuration = Configuration(STATIC, BATCH, own_hz, latency, service)
    profile = Profile(1, "slow", "emulated", EMULATED, 1.0, 1.0, (configuration,), decoding=decoding)
    return with_decoding(profile).configurations[0].max_throughput_hz


def calibrated(cameras: int) -> Decoding:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    with running(spawn.Process(target=calibrating_process, args=(cameras, theirs))):
        if not ours.poll(START_S):
            raise TimeoutError("nothing was measured")
        found: Decoding = ours.recv()
    return found


def measure(latency_ms: float, cameras: int, turns: int, seconds: float) -> Row:
    """One row: medians over the turns."""
    told, found = [], []
    request_ms = []
    for _ in range(turns):
        decoding = calibrated(cameras)
        request_ms.append(sum(one.ms for one in decoding.cameras))
        told.append(predicted_hz(latency_ms, decoding))
        found.append(worked(latency_ms, cameras, seconds).hz)
    own_hz, predicted, measured = 1000 * BATCH / latency_ms, median(told), median(found)
    return {
        "model_ms": latency_ms,
        "cameras": cameras,
        "request_ms": round(median(request_ms), 2),
        "own_hz": round(own_hz, 1),
        "predicted_hz": round(predicted, 1),
        "measured_hz": round(measured, 1),
        "wrong": round(predicted / measured - 1, 3),
        "blind": round(own_hz / measured - 1, 3),
        "turns_hz": [[round(hz, 1) for hz in one] for one in (told, found)],
    }


def against_stacking(turns: int, seconds: float) -> Row:
    """One array against many, in turn: medians."""
    latency_ms, cameras = CASES[-1]
    runs: dict[bool, list[Worked]] = {True: [], False: []}
    for turn in range(turns):
        for rows in (True, False) if turn % 2 else (False, True):
            runs[rows].append(worked(latency_ms, cameras, seconds, rows))
    found: Row = {"model_ms": latency_ms, "cameras": cameras}
    for rows, name in ((True, "rows"), (False, "stacked")):
        for value in ("hz", "cpu_ms", "stack_ms"):
            found[f"{name}_{value}"] = round(median(getattr(one, value) for one in runs[rows]), 2)
    return found


def judge(rows: Sequence[Row], array: Row) -> list[Row]:
    worst = max(abs(row["wrong"]) for row in rows)
    blind = max(row["blind"] for row in rows)
    return [
        {
            "aim": f"predicted throughput within {100 * MAX_WRONG:.0f} % of that of a worker that decodes",
            "value": f"{100 * worst:.1f} % wrong at most; {100 * blind:.0f} % without the cost of decoding",
            "holds": worst <= MAX_WRONG,
        },
        {
            "aim": "decoded into one array a batch costs no more CPU time than stacked",
            "value": f"{array['rows_cpu_ms']} against {array['stacked_cpu_ms']} ms; the model has it after"
            f" {array['rows_stack_ms']} against {array['stacked_stack_ms']} ms",
            "holds": array["rows_cpu_ms"] <= array["stacked_cpu_ms"],
        },
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each turn")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where decode_cost.json goes")
    asked = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    rows = []
    for latency_ms, cameras in CASES:
        rows.append(measure(latency_ms, cameras, asked.turns, asked.seconds))
        print(rows[-1], flush=True)
    array = against_stacking(asked.turns, asked.seconds)
    print(array, flush=True)
    aims = judge(rows, array)
    print_aims(aims)
    cores = len(os.sched_getaffinity(0))
    notes = [
        f"Load {load:.1f} before the run, {os.getloadavg()[0]:.1f} after it; {cores} cores, batches of {BATCH}.",
        "own_hz: of the model alone. wrong: predicted over measured, less 1; blind: own_hz over measured, less 1.",
    ]
    write(
        asked.out / "decode_cost.json",
        rows,
        aims,
        notes,
        options=f"--turns {asked.turns} --seconds {asked.seconds:g}",
        how="",
        one_array=array,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
