"""What decoding pictures costs a worker that decodes the next batch while its model runs (docs/lifecycle.md). Pure.

Where cores are enough, nothing: the pictures of a batch are ready when the model is. Where they are not, batches come
as slowly as pictures are decoded. The threads that decode are never more than `MAX_THREADS`; they, and what the model
itself does on the CPU, share the cores of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

# The next batch is decoded while a model runs if that takes this long and decoding the last one took this CPU time:
# handing the sockets to another thread and back costs about 0.1 ms.
MIN_RUN_MS, MIN_DECODE_MS = 4.0, 0.5
MIN_SHARED_MS = 0.3  # of CPU time a request: below it, decoding in other threads costs more than it gains
MAX_THREADS = 4  # that decode


@dataclass(frozen=True)
class DecodeCost:
    """Of one model's requests on one machine."""

    request_ms: float  # CPU time of the pictures of one request
    cores: float  # for each worker
    model_cores: float = 0.0  # that the model keeps busy while it runs

    def alone_ms(self, size: int) -> float:
        """How long the pictures of a batch take while nothing runs: what is added to the latency of its calls."""
        return size * self.request_ms / self._threads(size)

    def takes_ms(self, size: int, model_ms: float) -> float:
        """What a batch takes when one comes after the other. `model_ms`: of the model alone."""
        cpu_ms = size * self.request_ms
        if model_ms < MIN_RUN_MS or cpu_ms < MIN_DECODE_MS:  # too short to decode meanwhile
            return model_ms + self.alone_ms(size)
        return max(model_ms, self.alone_ms(size), (cpu_ms + self.model_cores * model_ms) / self.cores)

    def _threads(self, size: int) -> float:
        return min(MAX_THREADS, self.cores, size) if self.request_ms >= MIN_SHARED_MS else 1
