"""A model that runs in the gateway's own thread: nothing is copied or handed over, and nobody is woken.

For models of which their author says that they may (`Capabilities.inline`): they answer within `MAX_BATCH_S`, on the
CPU. Beside each stands an ordinary worker with the same model, which takes its place at once and for good when it
cannot go on (`InlineEnds`). A model that exits, loops in Python, waits, is slow or busy, or fails at everything ends
so, and its calls are run again by that worker. Not held here, as it is by a separate process: a model that crashes
the interpreter, hangs in native code, or uses up memory takes the gateway with it.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any, ClassVar

from rosa_contract.errors import CausedError
from rosa_contract.wire import messages as m
from rosa_server.models.backend import Backend, ModelInput
from rosa_server.serving.base import log
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.core.guard.bucket import Bucket
from rosa_server.serving.worker.answers import Refusal, short
from rosa_server.serving.worker.batch_worker import Batches

MAX_BATCH_S = 0.002  # what a batch may take
# Batches may take longer together, per second and at once: a busy machine makes a fast model late now and then.
OVER_SHARE, OVER_AT_ONCE_S = 0.05, 0.2
# Of the gateway's time, per second and at once: robots share the rest, whatever one of them sends.
BUSY_SHARE, BUSY_AT_ONCE_S = 0.5, 0.5
HANGS_S = 0.5  # a batch that takes so long is interrupted
AGAIN_S = 0.05  # and again, where the model has caught that


class InlineEnds(CausedError):
    """A model runs in the gateway's thread no more."""

    CAUSES: ClassVar = {
        "too_slow": "its batches take longer than they may there",
        "too_busy": "it takes more of the gateway's time than it may",
        "hangs": "a batch did not come back",
        "compressed_pictures": "a robot sends pictures that have to be decoded, which is done in a separate process",
        "model_ended": "it tried to end the process",
        "model_broken": "it fails at everything",
        "replaced": "another life of its worker, which may have another model, is ready",
        "drained": "its worker ends",
        "killed": "the serving core gave it up",
    }


class Interrupted(BaseException):
    """A batch takes too long. Not an `Exception`: a model's own handlers are not for it."""


class HangAlarm:
    """Interrupts what the main thread runs for too long, as soon as Python gets a word in."""

    def __init__(self, hangs_s: float = HANGS_S) -> None:
        """Raises `ValueError` in any other thread."""
        self._hangs_s, self._runs = hangs_s, False
        self._before = signal.signal(signal.SIGALRM, self._rings)

    def begin(self) -> None:
        self._runs = True
        signal.setitimer(signal.ITIMER_REAL, self._hangs_s, AGAIN_S)

    def end(self) -> None:
        self._runs = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def close(self) -> None:
        self.end()
        signal.signal(signal.SIGALRM, self._before)

    def _rings(self, number: int, frame: FrameType | None) -> None:
        if self._runs:
            raise Interrupted


def in_main_thread() -> bool:
    """Only there a model can be interrupted."""
    return threading.current_thread() is threading.main_thread()


class InlineWorker(Batches):
    """Answers a batch at once, in the thread of the caller."""

    def __init__(self, spec: WorkerSpec, backend: Backend, watch: HangAlarm) -> None:
        super().__init__(spec, backend)
        self._watch = watch
        self._over, self._busy = Bucket(OVER_SHARE, OVER_AT_ONCE_S), Bucket(BUSY_SHARE, BUSY_AT_ONCE_S)
        self._ran: list[tuple[Any, Any]] = []  # inputs and outcomes of batches, since the last `look_back`
        self.ended: InlineEnds | None = None  # it answers no batch after this one

    def answered(self, batch: m.Execute) -> m.Executed:
        """Raises `InlineEnds` where it does not come to an answer: then somebody else has to run this batch."""
        began_s = time.monotonic()
        try:
            self._watch.begin()
            try:
                decoded = self._decoded(batch)
                done = self._execute(decoded)
                executed = self._executed(done)
            finally:
                self._watch.end()
        except InlineEnds as error:
            self.ended = error
        except Interrupted:
            self.ended = InlineEnds("hangs", f"a batch of {len(batch.tickets)} took more than {HANGS_S:g} s")
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # as SystemExit: in a separate process it would end that
            self.ended = InlineEnds("model_ended", f"a batch ended with {short(error)}")
        else:
            self._charge(began_s)
            self._ran.append((decoded.inputs, done[2]))
            return executed
        raise self.ended

    def _charge(self, began_s: float) -> None:
        now_s = time.monotonic()
        took_s = now_s - began_s
        if took_s > MAX_BATCH_S and not self._over.take(took_s - MAX_BATCH_S, now_s):
            words = f"the last batch took {took_s * 1000:.1f} ms, of {MAX_BATCH_S * 1000:g}"
            self.ended = InlineEnds("too_slow", words)
        elif not self._busy.take(took_s, now_s):
            words = f"its batches take more than {BUSY_SHARE:.0%} of the gateway's time"
            self.ended = InlineEnds("too_busy", words)

    def look_back(self) -> InlineEnds | None:
        """After the answers have left: whether the model is broken. Returns why this is over, if it is."""
        ran, self._ran = self._ran, []
        for inputs, outcomes in ran:
            self._judge(inputs, outcomes)
        if self.broken:
            self.ended = self.ended or InlineEnds("model_broken", self.broken)
        return self.ended

    def _test(self) -> None:
        self._watch.begin()
        try:
            super()._test()
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            self.ended = self.ended or InlineEnds("model_broken", f"a test of it ended with {short(error)}")
        finally:
            self._watch.end()

    def close(self) -> None:
        super().close()
        if self.ended is not None and self.ended.cause in ("hangs", "model_ended", "model_broken"):
            return  # it may do so again
        self._watch.begin()
        try:
            self._backend.close()
        except (Exception, Interrupted) as error:
            log.warning("close_failed", worker=self._spec.worker_id, error=short(error))
        finally:
            self._watch.end()

    def _known(self, request: m.Request, *given: Any) -> ModelInput | Refusal:
        compressed = {image.encoding for image in request.images.values()} - {"rgb8"}
        if compressed:  # no decoder of pictures runs in the gateway
            raise InlineEnds(
                "compressed_pictures", f"{', '.join(sorted(compressed))}, where rgb8 is expected"
            )
        return super()._known(request, *given)
