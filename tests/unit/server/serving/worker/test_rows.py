"""A batch's pictures are decoded side by side, and the batch that runs keeps its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import zmq

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import encode_image
from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.stacking import Place, stacked
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.worker.batch_worker import BatchWorker
from rosa_server.serving.worker.gateway_end import GatewayEnd
from rosa_server.serving.worker.rows import MAX_MB, Rows
from tests.unit.server.serving.core.stage import IMAGES, request
from tests.unit.server.serving.moody import Moody, causes

[(CAMERA, SIZE)] = IMAGES.items()
SHAPE = (*SIZE, 3)


def test_two_arrays_take_turns_so_that_a_batch_outlives_the_next_one_only() -> None:
    rows = Rows(2)
    kept = []
    for number in range(4):
        row = rows.next()(0)("front", SHAPE)
        assert row is not None
        row[...] = number
        kept.append(row)
    assert [int(row.max()) for row in kept] == [2, 3, 2, 3]
    assert np.shares_memory(kept[0], kept[2]) and not np.shares_memory(kept[2], kept[3])


def test_what_has_no_row_has_an_array_of_its_own() -> None:
    rows = Rows(2)
    place = rows.next()
    assert place(1)("front", SHAPE) is not None
    assert place(2)("front", SHAPE) is None, "more than the largest batch"
    assert place(0)("front", (1, 1, 3)) is None, "of another size than the first"
    assert place(0)("wrist", (MAX_MB * 1000, 1000, 3)) is None, "too large to keep"
    assert place(0)("wrist", SHAPE) is not None


def test_the_memory_of_a_gpu_model_can_be_any_array() -> None:
    made: list[tuple[int, ...]] = []

    def pinned(shape: tuple[int, ...]) -> Any:
        made.append(shape)
        return np.zeros(shape, np.uint8)

    rows = Rows(3, pinned)
    for _ in range(4):
        rows.next()(0)("front", SHAPE)
    assert made == [(3, *SHAPE)] * 2, "one for each turn, once"


class Stacking(Moody):
    """Takes its batch as one array, and notes whether that was a copy."""

    def __init__(self) -> None:
        self.seen: list[tuple[bool, list[int]]] = []

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        whole = stacked([one.images[CAMERA] for one in batch])
        self.seen.append(
            (np.shares_memory(whole, batch[0].images[CAMERA]), [int(one.max()) for one in whole])
        )
        return super().infer(batch)


class Halving(Stacking):
    """Has its pictures made half as large ahead of time."""

    def prepare_ahead(self, one: ModelInput, place: Place) -> ModelInput:
        small = one.images[CAMERA][::2]
        row = place(CAMERA, small.shape)
        assert row is not None
        np.copyto(row, small)
        return ModelInput(one.component, one.prompt, {CAMERA: row}, one.state)


def ran(backend: Stacking, batches: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Causes of each batch; a batch is a list of levels of grey, of raw bytes, or of None for a damaged one."""
    found = []
    with ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        gateway, socket = (stack.enter_context(context.socket(zmq.PAIR)) for _ in range(2))
        gateway.bind("inproc://worker")
        socket.connect("inproc://worker")
        worker = BatchWorker(
            WorkerSpec("w1", "policy", "moody", "inproc://worker"), backend, GatewayEnd(socket)
        )
        stack.callback(worker.close)
        for number, greys in enumerate(batches):
            frames = []
            for grey in greys:
                image = encode_image(np.full(SHAPE, grey or 0, np.uint8), "rgb8" if grey == RAW else "jpeg")
                asked = codec.encode(request(number, prompt="", images={CAMERA: image}))
                frames.append([asked[0][:-3], *asked[1:]] if grey is None else asked)
            gateway.send_multipart(codec.encode(m.Execute(number, list(range(len(greys))), frames)))
            worker.step()
            done = codec.decode(gateway.recv_multipart(zmq.NOBLOCK))
            assert isinstance(done, m.Executed)
            found.append(causes(done))
    return found


RAW = 77


def test_the_pictures_of_a_batch_are_one_array_without_a_copy() -> None:
    backend = Stacking()
    assert ran(backend, [[10, 20, 30], [40], [50, 60]]) == [["ok"] * 3, ["ok"], ["ok"] * 2]
    assert backend.seen == [(True, [10, 20, 30]), (True, [40]), (True, [50, 60])]


def test_a_damaged_request_between_two_others_costs_a_copy_and_nothing_else() -> None:
    backend = Stacking()
    [found] = ran(backend, [[10, None, 30]])
    assert found[0] == found[2] == "ok" != found[1]
    assert backend.seen == [(False, [10, 30])]


def test_raw_pictures_stay_where_they_came() -> None:
    backend = Stacking()
    assert ran(backend, [[RAW, RAW]]) == [["ok", "ok"]]
    assert backend.seen == [(False, [RAW, RAW])]


@pytest.mark.parametrize("grey", [10, RAW])
def test_a_backend_prepares_its_inputs_before_they_are_due(grey: int) -> None:
    backend = Halving()
    assert ran(backend, [[grey, grey]]) == [["ok", "ok"]]
    assert backend.seen == [(True, [grey, grey])]
