"""What System 2 has planned in a task, and what of it is done: the steps by which a monitor can judge the whole."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rosa_contract.wire.progress import MAX_STEPS, STEP_DONE

ROUNDING = 1e-9  # of credits, which are sums of call ratios


@dataclass(frozen=True)
class Planned:
    """The steps of a task in the order in which they were first planned, each once.

    A plan counts as a step when it was made `counts_after` times in a row, so that a slip does not; 0: none counts.
    A step is done when the monitor has said so twice in a row, and stays so: a block that lies in its bin may be hidden
    by the next one.
    """

    counts_after: int
    newest: str = ""
    in_a_row: int = 0
    steps: tuple[str, ...] = ()
    said_done: frozenset[str] = frozenset()  # by the monitor's last answer
    done: frozenset[str] = frozenset()

    def and_then(self, plan: str) -> Planned:
        """System 2 has planned this as well; as a step it is one line."""
        plan = " ".join(plan.split())
        in_a_row = self.in_a_row + 1 if plan == self.newest else 1
        counts = plan and 0 < self.counts_after <= in_a_row and plan not in self.steps
        steps = (*self.steps, plan)[-MAX_STEPS:] if counts else self.steps
        return replace(self, newest=plan, in_a_row=in_a_row, steps=steps)

    def heard(self, text: str) -> Planned:
        """The monitor has answered: a line `done: STEP` for each step that is done."""
        said = frozenset(step for step in self.steps if f"{STEP_DONE}{step}" in text.split("\n"))
        return replace(self, said_done=said, done=self.done | (said & self.said_done))

    def after(self, prompt: str) -> str:
        """The prompt, and every step on its own line, as `done: STEP` where it is done."""
        return "\n".join([prompt, *(f"{STEP_DONE}{one}" if one in self.done else one for one in self.steps)])


def besides(text: str) -> str:
    """What a monitor's text says besides which steps are done."""
    return "\n".join(line for line in text.split("\n") if not line.startswith(STEP_DONE))


class Planning:
    """The plan, the calls of System 2 that are due, and the steps. Only this class writes what is here."""

    def __init__(self, counts_after: int) -> None:
        """`counts_after` as in `Planned`."""
        self.plan: str | None = None
        self.credit = 1.0  # System 2 calls that are due; grows by the call ratio with each round
        self._counts_after = counts_after
        self.steps = Planned(counts_after)

    @property
    def is_due(self) -> bool:
        """System 2 is called before System 1."""
        return self.credit >= 1 - ROUNDING

    def is_due_after(self, ratio: float) -> bool:
        """Whether it is when the action under way has earned its `ratio` of a call."""
        return self.credit + ratio >= 1 - ROUNDING

    def hear(self, text: str) -> None:
        """System 2 has planned; an empty plan is none."""
        self.plan = text or None
        self.steps = self.steps.and_then(text)

    def hear_monitor(self, text: str) -> None:
        """The monitor has said which steps are done."""
        self.steps = self.steps.heard(text)

    def spend(self, owed: float) -> None:
        """System 2 was called for one plan. Called ahead, it used the credit that the action under way will earn."""
        self.credit = max(-owed, self.credit - 1)

    def earn(self, ratio: float) -> None:
        """An action was carried out."""
        self.credit += ratio

    def forget(self) -> None:
        """Plan again before anything else."""
        self.plan, self.credit = None, 1.0

    def forget_steps(self) -> None:
        """Another scene: what was planned before says nothing about it. Another attempt is at the same scene."""
        self.steps = Planned(self._counts_after)
