"""`rollout`: new weights for a model, one worker after the other. The old one serves until the new one is warm, and,
where the order asks for a trial, until it has done as well."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from rosa_contract.wire.watching import Order
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.operations.names import CANARY, SHADOW
from rosa_server.serving.operations.operation import End, Operation
from rosa_server.serving.operations.order import OperationError, Site
from rosa_server.serving.operations.trial import Canary, InShadow, WeightsTrial, terms_of

WEIGHTS = "weights"
WARMS_S = 900.0  # until new weights have to be loaded


class Rollout(Operation):
    """Exchanges the weights of one model."""

    def __init__(self, site: Site, order: Order, now_s: float, done: Collection[str] = ()) -> None:
        """`done`: workers that run the new weights already. Raises `OperationError`."""
        names = site.of_model(order.target)
        self._terms = terms_of(order)
        self._weights = self._terms.weights
        if not Path(self._weights).is_absolute() or not Path(self._weights).exists():
            words = f"{self._weights}: expected the path of a file or folder that is there"
            raise OperationError("no_weights", words)
        away = set(names) & site.state.drained
        if away:
            words = f"{', '.join(sorted(away))} is drained; `rosa undrain` gives it back first"
            raise OperationError("busy", words)
        super().__init__(site, order, names, now_s)
        self._todo = [name for name in names if name not in done]
        self._done = len(names) - len(self._todo)
        self._heir = ""  # the new worker that has to get warm
        self._started_s = 0.0
        self._shadow: InShadow | None = None  # while it gets warm
        self._trial: WeightsTrial | None = None
        self._was_tried = self._done > 0
        self._promoting = False  # the trial went well, and the new worker is about to take over
        self._reverted = ""  # why the new weights were given up
        self._killed = self._was_ready = (
            False  # the new worker: when the rollout was cancelled, and before it ended
        )

    def let_go(self, now_s: float) -> None:
        """See `Operation`: calls are not shared out any more."""
        if self._trial is not None:
            self._trial.end()

    def step(self, now_s: float, gone: Mapping[str, str]) -> End | None:
        self.retirement.step(now_s)
        if self._heir:
            return self._look_at_heir(now_s, gone)
        if self._trial is not None:
            self._look_at_trial(now_s, self._trial, gone)
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

    def _look_at_heir(self, now_s: float, gone: Mapping[str, str]) -> End | None:
        heir = self._heir
        name, _, life = heir.rpartition(".")
        if heir in gone:
            # One that was ready has the old one's place: its next life takes over, cancelled or not.
            takes_over = self._was_ready and self._shadow is None
            self._heir = f"{name}.{int(life) + 1}" if takes_over else ""
            self._killed = self._was_ready = False
            self._forget_shadow()
            if self._heir or self.cancelled:
                return None
            return End("not_warm", f"{heir} did not become ready; what serves goes on as it was")
        if self._killed:
            self._was_ready |= self.site.core.pool.get(heir) is not None
        elif self.site.core.pool.get(heir) is not None:
            self._warm(now_s, heir)
        elif now_s > self._started_s + WARMS_S:
            self.site.cluster.kill(heir, "it was not ready in time")
            self._forget_shadow()
            return End("not_warm", f"{heir} did not become ready; what serves goes on as it was")
        return None

    def _warm(self, now_s: float, heir: str) -> None:
        """The new worker is: it takes over, or is tried first."""
        self._heir = ""
        old = self._old(heir)
        took = f"{heir} is warm after {now_s - self._started_s:.1f} s"
        if self._shadow is not None:
            self._shadow.begin(now_s)
            self._trial, self._shadow, self._was_tried = self._shadow, None, True
            words = f"{took} and answers copies for {self._terms.seconds:g} s"
            self.site.say(self.order, "compared", words, worker=heir)
            return
        self._done += 1
        self.site.say(self.order, "warm", f"{took} and takes over", worker=heir)
        if self._terms.kind == CANARY and not self._was_tried and old:
            self._was_tried = True
            self._trial = Canary(self.site, self._terms, heir, now_s, old[0])
            words = f"{heir} and {old[0]} share their calls for {self._terms.seconds:g} s and are compared"
            self.site.say(self.order, "compared", words, workers=[heir, old[0]])
            return
        self._keep(heir)
        for worker_id in old:
            self.retirement.add(now_s, worker_id)

    def _keep(self, heir: str) -> None:
        """It runs the new weights for good, after a restart too."""
        state, name = self.site.state, heir.rpartition(".")[0]
        state.weights[name] = self._weights
        unfinished = state.of(self.order.target)
        if unfinished is not None:
            unfinished.done.append(name)
        state.save()

    def _old(self, heir: str) -> list[str]:
        """The warm workers whose place it takes."""
        return [one for one in self.site.warm([heir.rpartition(".")[0]]) if one != heir]

    def _look_at_trial(self, now_s: float, trial: WeightsTrial, gone: Mapping[str, str]) -> None:
        """Take over, or give the new weights up, as the rule says."""
        new = trial.heir
        why: str | None = (
            "it was cancelled" if self.cancelled and new not in gone else trial.look(now_s, gone)
        )
        if self._promoting and new not in gone:
            why = ""
        if why is None:
            return
        told = trial.told
        if not why:
            self._promoting = True
            try:
                if not trial.promote(now_s):
                    return
            except ValueError as error:
                why = str(error)
        self._trial = None
        trial.end()
        if not why:
            self._done = 1
            self._keep(new)
            self.site.say(self.order, "promoted", f"{new} does as well ({told}) and takes over", worker=new)
            for worker_id in self._old(new):
                self.retirement.add(now_s, worker_id)
            return
        self._done = 0
        if self._terms.kind == SHADOW and new in gone:  # it had nobody's place
            self._reverted = f"{why} ({told})"
            return
        try:
            self.site.cluster.revert(new.rpartition(".")[0])
        except ValueError as error:
            self._reverted = f"{why}, and {error}"
            return
        self._reverted = why if self._terms.kind == CANARY else f"{why} ({told})"
        self.site.say(self.order, "reverted", f"{new} ends: {why}", worker=new, reason=why)
        if self.site.core.pool.get(new) is not None:
            self.retirement.add(now_s, new)

    def _start(self, now_s: float) -> End | None:
        name = self._todo.pop(0)
        in_shadow = self._terms.kind == SHADOW and not self._was_tried
        try:
            self._heir = self.site.cluster.bequeath(
                name, lambda spec: with_weights(spec, self._weights), in_shadow
            )
        except OperationError as error:
            return End(error.cause, str(error))
        except ValueError as error:
            return End("busy", str(error))
        if in_shadow:
            self._shadow = InShadow(self.site, self._terms, self._heir, self.order.target)
        self._started_s = now_s
        words = (
            f"{self._heir} starts with the new weights, beside {name} ({self._done + 1} of {len(self.names)})"
        )
        self.site.say(self.order, "started", words, worker=self._heir)
        return None

    def _forget_shadow(self) -> None:
        if self._shadow is not None:
            self._shadow.end()
            self._shadow = None

    def cancel(self, now_s: float) -> None:
        """A new worker that is not warm is ended; one that has taken over stays."""
        self.cancelled = True
        if self._heir and self.site.core.pool.get(self._heir) is None:
            self._killed = True
            self.site.cluster.kill(self._heir, "the rollout was cancelled")

    @property
    def doing(self) -> str:
        what = f"{self._heir} loads" if self._heir else "a worker finishes what it runs"
        what = "old and new are compared" if self._trial is not None else what
        return f"{self._done} of {len(self.names)} workers run the new weights; {what}"


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


def rolled_out(site: Site, models: Mapping[str, str]) -> dict[str, str]:
    """Model -> the weights that a rollout has given to all of its workers. `models`: name of a worker -> its model."""
    found: dict[str, set[str]] = {}
    for name, model in models.items():
        found.setdefault(model, set()).add(site.state.weights.get(name, ""))
    return {model: paths.pop() for model, paths in found.items() if len(paths) == 1}


def begin_with(site: Site, names: Iterable[str], weights: Mapping[str, str]) -> None:
    """Workers that were added just now begin with these weights of their models, see `rolled_out`."""
    of = site.names()
    for name in names:
        site.state.weights.pop(name, None)  # of an earlier worker of this name
        if path := weights.get(site.placement.replicas[of[name][0]].model, ""):
            with suppress(OperationError):  # one in the cloud may have none
                site.cluster.change(name, partial(with_weights, weights=path))
                site.state.weights[name] = path
    site.state.save()
