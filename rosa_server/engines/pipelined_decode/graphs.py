"""CUDA graphs of the packed pass: one launch instead of a few hundred. Only on a GPU, and only after a check.

A graph is recorded for each number of entering frames when it first occurs, and its answer is compared with that of the
pass without a graph. Where recording fails or the answers differ, passes run without graphs, and `why_not` says why.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from rosa_server.engines.pipelined_decode.engine import Runner
from rosa_server.engines.pipelined_decode.network import Sizes, StagedDecoder
from rosa_server.engines.pipelined_decode.packed import Layout, PackedForward
from rosa_server.engines.pipelined_decode.pipe import Pass

log = logging.getLogger(__name__)


def runner_for(decoder: StagedDecoder, config: Sizes, slots: int, graphs: bool = True) -> Runner:
    """The fastest way that the decoder's device has: CUDA graphs on a GPU."""
    if not graphs or decoder.head.weight.device.type != "cuda":
        return PackedForward(decoder, config, slots)
    return GraphedForward(PackedForward(decoder, config, slots, padded=True))


class GraphedForward:
    """Replays passes of a padded `PackedForward`."""

    def __init__(self, forward: PackedForward) -> None:
        if forward.device.type != "cuda":
            raise ValueError(f"GraphedForward: graphs need CUDA, the decoder is on {forward.device}")
        self._forward = forward
        self._recorded: dict[int, tuple[torch.cuda.CUDAGraph, Layout, Tensor | None]] = {}
        self.tokens = forward.tokens
        self.why_not = ""

    def run(self, do: Pass, prefixes: Tensor | None) -> None:
        """One pass, as `PackedForward.run`."""
        layout = self._forward.layout(do)
        if not self.why_not and layout.entering not in self._recorded:
            self._record(layout, prefixes)
        elif not self.why_not:
            self._replay(layout, prefixes)
        if self.why_not:
            self._forward.forward(layout, prefixes)

    def _replay(self, layout: Layout, prefixes: Tensor | None) -> None:
        graph, held, inputs = self._recorded[layout.entering]
        for target, source in zip(held.tensors(), layout.tensors(), strict=True):
            target.copy_(source, non_blocking=True)
        if inputs is not None and prefixes is not None:
            inputs.copy_(prefixes)
        graph.replay()

    def _record(self, layout: Layout, prefixes: Tensor | None) -> None:
        """Record this pass and check it. Running it again changes nothing: it writes what it has written."""
        inputs = None if prefixes is None else prefixes.clone()
        try:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self._forward.forward(layout, inputs)
            torch.cuda.current_stream().wait_stream(side)
            expected = self.tokens[layout.slots, layout.steps].clone()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._forward.forward(layout, inputs)
            self.tokens[layout.slots, layout.steps] = 0
            graph.replay()
            ours = layout.slots != self._forward.ring.scratch  # what padding rows say depends on their order
            same = bool((self.tokens[layout.slots, layout.steps] == expected)[ours].all())
        except RuntimeError as error:
            self._give_up(f"a pass could not be recorded: {error}")
            return
        if same:
            self._recorded[layout.entering] = graph, layout, inputs
        else:
            self._give_up("a recorded pass gave other tokens than the pass itself")

    def _give_up(self, why: str) -> None:
        self.why_not = why
        self._recorded.clear()
        log.warning("passes run without CUDA graphs: %s", why)
