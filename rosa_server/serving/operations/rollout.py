"""`rollout`: new weights for a model, one worker after the other. The old one serves until the new one is warm."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rosa_contract.wire.watching import Order
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.core.workers.comparing import MIN_ANSWERS, worse
from rosa_server.serving.operations.operation import End, Operation
from rosa_server.serving.operations.order import OperationError, Site

WEIGHTS = "weights"
WARMS_S = 900.0  # until new weights have to be loaded
MAX_CANARY_S = 86_400.0
PATIENCE = 9  # times as long as was asked for a comparison waits for answers


class Rollout(Operation):
    """Exchanges the weights of one model."""

    def __init__(
        self, site: Site, order: Order, now_s: float, drained: Collection[str], canary: bool = False
    ) -> None:
        """`canary`: the value of the order begins with seconds, in which the first new worker is compared with the one
        that it replaces. Raises `OperationError`."""
        names = site.of_model(order.target)
        self._canary_s, self._weights = _canary(order.value) if canary else (0.0, order.value)
        if not Path(self._weights).is_absolute() or not Path(self._weights).exists():
            words = f"{self._weights}: expected the absolute path of a file or folder"
            raise OperationError("no_weights", words)
        away = set(names) & set(drained)
        if away:
            words = f"{', '.join(sorted(away))} is drained; `rosa undrain` gives it back first"
            raise OperationError("busy", words)
        super().__init__(site, order, names, now_s)
        self._todo, self._done = list(names), 0
        self._heir = ""  # the new worker that has to get warm
        self._started_s = 0.0
        self._pair: tuple[str, str] | None = None  # new and old, while they are compared
        self._pair_until_s = 0.0
        self._was_compared = False
        self._reverted = ""  # why the new weights were given up
        self._killed = self._was_ready = (
            False  # the new worker: when the rollout was cancelled, and before it ended
        )

    def step(self, now_s: float, gone: Collection[str]) -> End | None:
        self.retirement.step(now_s)
        if self._heir:
            return self._look_at_heir(now_s, gone)
        if self._pair is not None:
            self._compare(now_s, self._pair, gone)
            return None
        if self.retirement:
            return None
        if self._reverted:
            cause = "cancelled" if self.cancelled else "worse"
            return End(cause, f"{self._reverted}; the old weights serve on")
        if self._todo and not self.cancelled:
            return self._start(now_s)
        count = f"{self._done} of {len(self.names)} workers run the new weights"
        if self.cancelled:
            return End("cancelled", f"{count}; order it again for the others, or the old weights for all")
        words = f"{self.order.target} runs {self._weights}; change its weights in the factory file too"
        return End("", words)

    def _look_at_heir(self, now_s: float, gone: Collection[str]) -> End | None:
        heir = self._heir
        name, _, life = heir.rpartition(".")
        if heir in gone:
            # One that was ready has the old one's place: its next life takes over, cancelled or not.
            self._heir = f"{name}.{int(life) + 1}" if self._was_ready else ""
            self._killed = self._was_ready = False
            if self._heir or self.cancelled:
                return None
            return End("not_warm", f"{heir} did not become ready; what serves goes on as it was")
        if self._killed:
            self._was_ready |= self.site.core.pool.get(heir) is not None
        elif self.site.core.pool.get(heir) is not None:
            words = f"{heir} is warm after {now_s - self._started_s:.1f} s and takes over"
            self.site.say(self.order, "warm", words, worker=heir)
            self._heir, self._done = "", self._done + 1
            old = [worker_id for worker_id in self.site.warm([name]) if worker_id != heir]
            if self._canary_s and not self._was_compared and old:
                self._was_compared = True
                self._pair, self._pair_until_s = (heir, old[0]), now_s + self._canary_s
                self.site.tells.compare(self._pair)
                words = f"{heir} and {old[0]} share their calls for {self._canary_s:g} s and are compared"
                self.site.say(self.order, "compared", words, workers=list(self._pair))
                return None
            for worker_id in old:
                self.retirement.add(now_s, worker_id)
        elif now_s > self._started_s + WARMS_S:
            self.site.cluster.kill(heir, "it was not ready in time")
            return End("not_warm", f"{heir} did not become ready; what serves goes on as it was")
        return None

    def _compare(self, now_s: float, pair: tuple[str, str], gone: Collection[str]) -> None:
        """Take over, or give the new weights up, as the rule says."""
        new, old = pair
        tallies = self.site.tells.compare(pair)
        why = ""
        if new in gone:
            why = f"{new} has ended"
        elif self.cancelled:
            why = "it was cancelled"
        elif old not in gone:
            few = min(one.answers for one in tallies.values()) < MIN_ANSWERS
            if now_s < self._pair_until_s + (few and PATIENCE * self._canary_s):
                return
            why = worse(tallies[new], tallies[old])
        self._pair = None
        self.site.tells.compare(())
        if not why:
            told = f"new: {tallies[new]}; old: {tallies[old]}"
            self.site.say(self.order, "promoted", f"{new} does as well ({told}) and takes over", worker=new)
            if self.site.core.pool.get(old) is not None:
                self.retirement.add(now_s, old)
            return
        try:
            self.site.cluster.revert(new.rpartition(".")[0])
        except ValueError as error:
            self._reverted = f"{why}, and {error}"
            return
        self._done, self._reverted = 0, why
        self.site.say(self.order, "reverted", f"{new} ends: {why}", worker=new, reason=why)
        if self.site.core.pool.get(new) is not None:
            self.retirement.add(now_s, new)

    def _start(self, now_s: float) -> End | None:
        name = self._todo.pop(0)
        try:
            self._heir = self.site.cluster.bequeath(name, lambda spec: with_weights(spec, self._weights))
        except OperationError as error:
            return End(error.cause, str(error))
        except ValueError as error:
            return End("busy", str(error))
        self._started_s = now_s
        words = (
            f"{self._heir} starts with the new weights, beside {name} ({self._done + 1} of {len(self.names)})"
        )
        self.site.say(self.order, "started", words, worker=self._heir)
        return None

    def cancel(self, now_s: float) -> None:
        """A new worker that is not warm is ended; one that has taken over stays."""
        self.cancelled = True
        if self._heir and self.site.core.pool.get(self._heir) is None:
            self._killed = True
            self.site.cluster.kill(self._heir, "the rollout was cancelled")

    @property
    def doing(self) -> str:
        what = f"{self._heir} loads" if self._heir else "a worker finishes what it runs"
        what = "old and new are compared" if self._pair is not None else what
        return f"{self._done} of {len(self.names)} workers run the new weights; {what}"


def _canary(value: str) -> tuple[float, str]:
    """`60 /path` -> (60.0, "/path"). Raises `OperationError`."""
    seconds, _, weights = value.partition(" ")
    try:
        canary_s = float(seconds)
    except ValueError:
        canary_s = 0.0
    if not 0 < canary_s <= MAX_CANARY_S:
        words = f"expected more than 0 and at most {MAX_CANARY_S:g} seconds to compare, got {seconds!r}"
        raise OperationError("bad_value", words)
    return canary_s, weights


def with_weights(spec: WorkerSpec, weights: str) -> WorkerSpec:
    """The same worker with other weights.

    Raises `OperationError` where it has none, or where only certain ones may be used.
    """
    if WEIGHTS not in spec.options:
        raise OperationError("no_weights", f"models.{spec.model} has no option {WEIGHTS}")
    if spec.sha256:
        words = (
            f"models.{spec.model}.sha256 names the files that may be used; change the factory file instead"
        )
        raise OperationError("pinned", words)
    return replace(spec, options={**spec.options, WEIGHTS: weights})
