"""What runs a pass depends on the device; on a CPU there are no graphs."""

from __future__ import annotations

import pytest

from rosa_server.engines.pipelined_decode.graphs import GraphedForward, runner_for
from rosa_server.engines.pipelined_decode.packed import PackedForward
from rosa_server.models.token_policy.config import PANDA
from rosa_server.models.token_policy.decoder import Decoder


def test_a_cpu_runs_packed_passes_without_graphs():
    runner = runner_for(Decoder(PANDA), PANDA, slots=2)
    assert isinstance(runner, PackedForward)
    with pytest.raises(ValueError, match="graphs need CUDA"):
        GraphedForward(runner)


def test_more_padding_than_a_slot_holds_is_refused():
    with pytest.raises(ValueError, match="padded slots"):
        PackedForward(Decoder(PANDA), PANDA, slots=PANDA.longest + 1, padded=True)
