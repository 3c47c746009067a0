"""A worker process: one model, one DEALER socket to its gateway, until it is told to drain.

python -m rosa_server.serving.worker.worker --spec '{"worker_id": ..., "model": ..., "backend": ..., "endpoint": ...}'
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence

import zmq

from rosa_contract.errors import ContractError
from rosa_contract.process import die_with
from rosa_server.models import registry
from rosa_server.models.adapters import behind
from rosa_server.models.backend import capabilities_of
from rosa_server.serving.base import log
from rosa_server.serving.base.compiled import check_compiled
from rosa_server.serving.base.malloc import keep_freed_memory
from rosa_server.serving.base.watched_link import ENDS_MS, WatchedLink
from rosa_server.serving.base.worker_spec import (
    FAILED_TO_START,
    MISCONFIGURED,
    MODEL_BROKEN,
    ReleaseError,
    WorkerSpec,
    spec_from,
)
from rosa_server.serving.worker.answers import short, trace
from rosa_server.serving.worker.batch_worker import BatchWorker
from rosa_server.serving.worker.continuous_worker import ContinuousWorker
from rosa_server.serving.worker.gateway_end import GatewayEnd
from rosa_server.serving.worker.loading import loaded


def _describe(spec: WorkerSpec) -> int:
    try:
        needs = behind(registry.create(spec.backend, **spec.options), spec.adapter).input_spec
    except ContractError as error:
        print(error, file=sys.stderr, flush=True)
        return MISCONFIGURED
    unused = None if needs.unused is None else sorted(needs.unused)
    told = {"images": dict(needs.images), "state": dict(needs.state), "resizes": sorted(needs.resizes)}
    print(json.dumps({**told, "unused": unused, "actions": needs.actions}), flush=True)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="rosa_server.serving.worker.worker", description="one model worker of a ROSA server"
    )
    parser.add_argument(
        "--spec", required=True, help="WorkerSpec as JSON; its options may come in ROSA_WORKER_OPTIONS"
    )
    parser.add_argument(
        "--describe",
        action="store_true",
        help="print what the model takes, as JSON, and end; nothing is loaded",
    )
    arguments = parser.parse_args(argv)
    try:
        check_compiled()
        spec = spec_from(arguments.spec, os.environ)
    except ReleaseError as error:
        print(error, file=sys.stderr, flush=True)
        return MISCONFIGURED
    if spec.parent_pid:
        die_with(spec.parent_pid)
    if arguments.describe:
        return _describe(spec)
    # Ctrl-C reaches the whole process group; the server then drains its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log.to_stderr(descriptor=spec.log_fd)
    keep_freed_memory()
    started_s = time.perf_counter()
    names = {"worker": spec.worker_id, "model": spec.model}
    try:
        backend = loaded(spec)
    except (ContractError, FileNotFoundError, PermissionError) as error:
        log.error("worker_misconfigured", **names, reason=str(error))
        return MISCONFIGURED
    except Exception as error:  # it may be anybody's code, and may succeed another time
        log.error("worker_failed_to_start", **names, error=short(error), traceback=trace(error))
        return FAILED_TO_START
    log.event(
        "worker_warm",
        worker=spec.worker_id,
        model=spec.model,
        seconds=round(time.perf_counter() - started_s, 3),
    )
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 2000)
        socket.setsockopt(zmq.RCVHWM, 0)  # bounded by this worker's credits
        if spec.keys is None:
            socket.setsockopt(zmq.IDENTITY, spec.worker_id.encode())
            link = None
        else:
            link = WatchedLink(socket, spec.keys, ENDS_MS)
        socket.connect(spec.endpoint)
        at_once, end = capabilities_of(backend).at_once, GatewayEnd(socket, spec.shm_fds, link)
        worker = (
            ContinuousWorker(spec, backend, end, at_once) if at_once > 1 else BatchWorker(spec, backend, end)
        )
        signal.signal(signal.SIGTERM, lambda *_: setattr(worker, "stopping", True))
        if link is None:  # otherwise on each connection
            worker.announce()
        worker.run()
        if not worker.broken:
            worker.close()
        if link is not None:
            link.close()
    if worker.broken:
        os._exit(MODEL_BROKEN)  # a driver that has failed may hang where it is closed, or raise
    backend.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
