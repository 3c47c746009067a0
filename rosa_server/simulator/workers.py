"""Workers whose model takes as long as its profile says, on GPUs that run one batch after another.

Times are per batch size, as `rosa_server/models/emulated.py` reads them: a worker runs a batch as a whole, or, where
the model batches continuously, several calls at a time of which each gets on the slower the more there are. A profile
whose static batches are padded has one size only, which is then the time of every smaller batch, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from rosa_contract.config.tasks import SAFETY, SYSTEM1
from rosa_contract.wire.messages import Executed, Output
from rosa_server.serving.core.queueing.actions import Dispatch
from rosa_server.timing.batches import BatchProfile
from rosa_server.timing.continuous import Shared
from rosa_server.timing.decoding import DecodeCost


@dataclass
class Gpu:
    """Runs one batch at a time, in the order in which they came."""

    free_s: float = 0.0
    busy_s: float = 0.0  # in the window
    _since_s: float | None = None  # running several calls at a time since then

    def take(self, now_s: float, service_s: float, window: tuple[float, float]) -> float:
        """Run something as soon as it is free; returns when it ends."""
        start_s = max(now_s, self.free_s)
        self.free_s = start_s + service_s
        self._count(start_s, self.free_s, window)
        return self.free_s

    def busy(self, now_s: float, busy: bool, window: tuple[float, float]) -> None:
        """From now on it runs something, or nothing."""
        if self._since_s is not None:
            self._count(self._since_s, now_s, window)
        self._since_s = now_s if busy else None

    def lost(self, now_s: float, window: tuple[float, float]) -> None:
        """Its machine ends now, with what it runs."""
        self.busy(now_s, False, window)
        if self.free_s > now_s:
            self.busy_s -= _within(now_s, self.free_s, window)
            self.free_s = now_s

    def _count(self, from_s: float, to_s: float, window: tuple[float, float]) -> None:
        self.busy_s += _within(from_s, to_s, window)


def _within(from_s: float, to_s: float, window: tuple[float, float]) -> float:
    """How much of this time lies in the window."""
    return max(0.0, min(to_s, window[1]) - max(from_s, window[0]))


@dataclass
class SimulatedWorker:
    """One life of one worker."""

    worker_id: str
    model: str
    replica: str
    gpu: Gpu
    profile: BatchProfile
    variation: float  # of one run: standard deviation as a share, cut at three of them
    rng: Random
    alive: bool = True
    slower: float = 1.0  # than the profile says
    epoch: int = 0  # of the schedule that it was started for
    # Component -> time of a batch by its size, where calls of several components run beside each other.
    mixed: Mapping[str, BatchProfile] = field(default_factory=dict)

    prefill_ms: Mapping[str, float] = field(default_factory=dict)  # of one prompt, by component
    decoding: DecodeCost | None = None  # of its pictures, before a batch can run

    def __post_init__(self) -> None:
        self.shared: Shared[Dispatch] = Shared(self.profile.service_s)

    def begin(self, now_s: float, batch: Dispatch) -> None:
        """Run one call beside others."""
        component = batch.calls[0].component
        times, prefill_s = self.mixed.get(component, self.profile), self.prefill_ms.get(component, 0.0) / 1000
        self.shared.begin(now_s, batch, self.varied(), times.service_s, prefill_s)

    def drop(self, now_s: float, tickets: Sequence[int]) -> list[Dispatch]:
        """Of the calls that run, these are not wanted any more: they end without an answer, and are returned."""
        gone = [batch for batch in self.shared if batch.calls[0].ticket in tickets]
        for batch in gone:
            self.shared.drop(now_s, batch)
        return gone

    def service_s(self, size: int) -> float:
        """How long the next batch of this size takes."""
        return self.profile.service_s(size) * self.varied()

    def decode_s(self, size: int) -> float:
        """How long the pictures of a batch take, while another one may run."""
        return self.decoding.alone_ms(size) / 1000 if self.decoding is not None else 0.0

    def varied(self) -> float:
        """How much longer than usual the next run takes, as a factor."""
        if not self.variation:
            return self.slower
        return self.slower * (1 + self.variation * max(-3.0, min(3.0, self.rng.gauss(0.0, 1.0))))


def executed(
    batch: Dispatch, service_s: float, answers: dict[str, Output], epoch: int = 0, decode_ms: float = 0.0
) -> Executed:
    """What a worker says when a batch has run; `answers`: component -> what the model says. `decode_ms`: CPU time of
    the pictures of each call."""
    calls = batch.calls
    return Executed(
        batch.batch_id,
        [call.ticket for call in calls],
        service_s * 1000,
        [("", "")] * len(calls),
        [answers[call.component] for call in calls],
        decode_ms=[decode_ms] * len(calls) if decode_ms else [],
        epoch=epoch,
    )


def cancelled(batch: Dispatch, epoch: int = 0) -> Executed:
    """What a worker says of a call that it has dropped."""
    return Executed(
        batch.batch_id, [batch.calls[0].ticket], 0.0, [("cancelled", "")], [Output()], epoch=epoch
    )


def answer_of(component: str, actions: Output) -> Output:
    """What an emulated model answers when nothing is wrong."""
    if component == SYSTEM1:
        return actions
    return Output(verdict="safe" if component == SAFETY else "ongoing")
