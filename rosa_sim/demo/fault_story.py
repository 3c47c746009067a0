"""One fault in one episode: turned on while the arm executes, lifted after a while; an operator who then resumes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from rosa_interfaces.msg import OperatorAlert

from rosa_sim.demo.episodes import RESUMES, EpisodeError, EpisodeRunner, stand_in
from rosa_sim.demo.report import Episode
from rosa_sim.faults.inject import Injector
from rosa_sim.faults.judge import Happened, happened
from rosa_sim.faults.table import fault
from rosa_sim.faults.watch import FaultWatch

MENDED_WITHIN_S = 60.0  # a restarted server loads its models
SETTLE_S = 0.05  # from lifting to working again, when nothing has to start


class FaultStory:
    """Belongs to one `EpisodeRunner`, whose hooks it uses. Runs one fault at a time."""

    def __init__(
        self,
        runner: EpisodeRunner,
        injector: Injector,
        resume_after_s: float = 2.0,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`resume_after_s`: how long the operator looks at an alert, once everything works again."""
        self._runner = runner
        self._injector = injector
        self._watch = FaultWatch(runner.node)
        self._resume_after_s = resume_after_s
        self._say = say
        self._name = ""
        # When the chunk began to play, the fault was turned on, lifted, and everything was whole again; None: not yet.
        self._chunk_s: float | None = None
        self._on_s: float | None = None
        self._lifted_s: float | None = None
        self._whole_s: float | None = None
        runner.on_turn = self._turn
        runner.operator = self._operator

    def run(
        self,
        name: str,
        number: int,
        of: int,
        seed: int,
        timeout_s: float,
        seconds: float,
        chunk: int,
        into_s: float,
    ) -> tuple[Episode, Happened]:
        """Run the episode of `seed`; `into_s` after chunk number `chunk` began, the fault is on for `seconds`."""
        self._name, self._seconds = name, seconds
        self._chunk, self._into_s = chunk, into_s
        self._chunk_s = self._on_s = self._lifted_s = self._whole_s = None
        self._watch.clear()
        try:
            episode = self._runner.run(number, of, seed, timeout_s)
        finally:
            self._lift()
            self._name = ""
        ended_s = time.monotonic()
        if self._on_s is None:
            raise EpisodeError(f"the episode ended as {episode.outcome} before {name} could be turned on")
        whole_s = self._whole_s or ended_s
        seen = happened(
            fault(name), self._watch.events, self._on_s, whole_s, ended_s, episode.outcome, episode.truth
        )
        return episode, replace(seen, told_share=self._injector.told_share)

    # -- hooks ------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Called between two messages: is it time?"""
        now_s = time.monotonic()
        if not self._name:
            return
        if self._on_s is None:
            self._wait_for_the_moment(now_s)
        elif self._lifted_s is None:
            if now_s >= self._on_s + self._seconds:
                self._lift()
        elif self._whole_s is None and self._whole(now_s, self._lifted_s):
            self._whole_s = now_s
            self._injector.ask_told_share()
            self._say(f"everything works again {now_s - self._on_s:.1f} s after the fault began")

    def _wait_for_the_moment(self, now_s: float) -> None:
        status = self._runner.status
        executing = status is not None and status.state == "executing" and status.round >= self._chunk
        if self._chunk_s is None and executing:
            self._chunk_s = now_s
        if self._chunk_s is not None and now_s >= self._chunk_s + self._into_s:
            self._begin()

    def _begin(self) -> None:
        self._injector.forget_health()
        self._on_s = (
            time.monotonic()
        )  # taken first: the robot may notice while the fault is being switched on
        self._injector.begin(self._name)
        self._runner.fault = self._name.replace("_", " ")
        self._say(f"fault on: {self._name} ({fault(self._name).does})")

    def _lift(self) -> None:
        if self._on_s is None or self._lifted_s is not None:
            return
        self._injector.forget_health()
        self._injector.end()
        self._lifted_s = time.monotonic()
        self._runner.fault = ""
        self._say(f"fault lifted after {self._lifted_s - self._on_s:.1f} s: {self._name}")

    def _whole(self, now_s: float, lifted_s: float) -> bool:
        """Whether everything that the fault broke works again."""
        if fault(self._name).returns:
            return now_s >= lifted_s + SETTLE_S
        waited_s = now_s - lifted_s
        return (self._injector.ready() and self._connected()) or waited_s > MENDED_WITHIN_S

    def _operator(self, alert: OperatorAlert, waited_s: float, count: int) -> str:
        """Resumes when the fault is over and the robot is welcome at the server; gives up when that does not help."""
        if self._on_s is None:  # an alert before the fault was switched on
            return stand_in(alert, waited_s, count)
        if self._whole_s is None or not self._connected():
            return ""
        if min(waited_s, time.monotonic() - self._whole_s) < self._resume_after_s:
            return ""
        return "resume" if count <= RESUMES + 1 else "abort"

    def _connected(self) -> bool:
        return self._runner.status is not None and self._runner.status.server_connected
