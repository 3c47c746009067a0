"""A function of tensors as a CUDA graph: one launch for all of its kernels. On a CPU it is the function itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

Answer = TypeVar("Answer")
WARM_UPS = 2


class Captured(Generic[Answer]):
    """Calls copy their inputs to where the graph reads them. The answer is overwritten by the next call."""

    def __init__(self, function: Callable[..., Answer], inputs: Sequence[Tensor], pool: Any = None) -> None:
        """`inputs`: of the shapes and types of every call. What else `function` reads or writes stays where it is.

        Graphs with the same `pool` (`torch.cuda.graph_pool_handle()`) compute in the same memory, so that the call of
        any of them overwrites an answer.
        """
        self._function, self._held = function, [one.clone() for one in inputs]
        self._graph: torch.cuda.CUDAGraph | None = None
        if not any(one.is_cuda for one in inputs):
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.inference_mode():
            for _ in range(WARM_UPS):
                function(*self._held)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(self._graph, pool=pool):
            self._answer = function(*self._held)

    @torch.inference_mode()
    def __call__(self, *inputs: Tensor) -> Answer:
        for held, given in zip(self._held, inputs, strict=True):
            held.copy_(given, non_blocking=True)
        if self._graph is None:
            return self._function(*self._held)
        self._graph.replay()
        return self._answer
