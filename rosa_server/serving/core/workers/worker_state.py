"""What the gateway knows of one warm worker: what it serves, what it holds, and when it may take more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.queueing.tiers import AWAY
from rosa_server.timing.batches import PREFETCH_S

CREDITS = 2  # batches that a worker may hold: one runs, the next arrives while it ends
MAX_DECODE_S = 0.2  # of a batch, counted for sending the next one early
DECODE_RATE = 0.2  # by which each batch corrects the time of decoding


@dataclass(slots=True)
class Batch:
    """Calls that a worker holds."""

    batch_id: int
    calls: list[Call]
    queue: str  # the one that they waited in
    size: int  # requests that the worker runs together from here on
    service_s: float  # how long it is expected to run; infinite when nothing is known
    expected_end_s: float
    hang_s: float
    buffer: int  # which of the worker's buffers it uses, one for each credit
    copies: bool = False  # of calls that are answered by others


@dataclass(eq=False, slots=True)
class SharedGpu:
    """The workers of one GPU that several models share: it runs one batch at a time, and the next one is given when
    that has ended, not before."""

    workers: list[WorkerState] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        return any(worker.batches for worker in self.workers)

    def free_at_s(self, now_s: float) -> float:
        """When what runs there is expected to end."""
        ends_s = (batch.expected_end_s for worker in self.workers for batch in worker.batches.values())
        return max(now_s, max(ends_s, default=now_s))


@dataclass(slots=True)
class WorkerState:
    """One warm worker process; it serves one model for its whole life. It runs whole batches, one after another."""

    worker_id: str
    model: str
    replica: str  # the one that it belongs to
    queue: str  # the one that it takes calls from now
    max_batch: int
    at_once: int = 1  # calls that it runs at a time, where it answers them one by one
    link_s: float = 0.0  # one way; 0: it is at the edge
    gpu: SharedGpu | None = None  # where it shares its GPU with workers of other models
    batches: dict[int, Batch] = field(default_factory=dict)  # in order of sending
    order: int = 0  # among the workers of its queue: the first comes first where it makes no difference
    shares: bool = False  # calls about one observation cost it less than calls about several
    counts: Mapping[str, int] = field(default_factory=dict)  # what its engine has done, as it last said
    held: int = 0  # calls
    retired: bool = False  # it is given nothing more; what it runs it finishes
    shadows: bool = False  # it is given copies of calls only, see shadowing.py
    epoch: int = 0  # of the schedule that it was started for
    decode_s: float = 0.0  # CPU time of the pictures of one batch, as it last told
    # Batches that it may hold, and which of its buffers are free: a heap, so the lowest is next.
    credits: int = field(init=False)
    free: list[int] = field(init=False)
    one_by_one: bool = field(init=False)  # it runs several calls at a time, each answered by itself

    def __post_init__(self) -> None:
        self.one_by_one = self.answers_one_by_one()
        self.credits = max(CREDITS, self.at_once, AWAY if self.link_s else 0)
        if self.gpu is not None:
            self.credits = 1  # what it would hold besides would run in another model's turn
        self.free = list(range(self.credits))

    @property
    def apart(self) -> bool:
        """Whether it takes nothing from any queue."""
        return self.retired or self.shadows

    def answers_one_by_one(self) -> bool:
        """Whether its kind runs several calls at a time."""
        return False

    @property
    def largest(self) -> int:
        """How many calls it may be given together."""
        return self.max_batch

    @property
    def beside(self) -> int:
        """Calls that it runs beside one that it is given now."""
        return 0

    @property
    def key(self) -> float:
        """By which the workers of a queue are sorted: how many calls it runs, or when it may take a second batch."""
        return next(reversed(self.batches.values())).expected_end_s - self.lead_s if self.batches else 0.0

    @property
    def lead_s(self) -> float:
        """How long before its last batch ends the next one is sent: it decodes that while the model runs this one."""
        return PREFETCH_S + min(self.decode_s, MAX_DECODE_S)

    def decoded(self, took_s: float) -> None:
        """A batch's pictures took so long."""
        self.decode_s += DECODE_RATE * (took_s - self.decode_s)

    def free_at_s(self, now_s: float) -> float | None:
        """When it may take a batch: now, a later time, or None while it holds as many as its credits allow."""
        if self.gpu is not None:
            return self.gpu.free_at_s(now_s)
        if not self.batches:
            return now_s
        if len(self.batches) >= self.credits:
            return None
        expected_s = next(reversed(self.batches.values())).expected_end_s
        return max(now_s, expected_s - self.lead_s)


class ContinuousState(WorkerState):
    """A worker whose model batches continuously: it runs `at_once` calls at a time, and answers each by itself."""

    __slots__ = ()  # no field of its own; mypyc cannot compile a dataclass that only extends one

    def answers_one_by_one(self) -> bool:
        return True

    @property
    def largest(self) -> int:
        return 1

    @property
    def beside(self) -> int:
        return len(self.batches)

    @property
    def key(self) -> float:
        return float(len(self.batches))

    def free_at_s(self, now_s: float) -> float | None:
        if self.gpu is not None:
            return self.gpu.free_at_s(now_s)
        return now_s if len(self.batches) < self.credits else None
