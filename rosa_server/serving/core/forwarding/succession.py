"""Which schedule follows the one that runs, where several gateways share it. Pure.

Who changes the schedule first says so with its beats, under a name that no other change has, and hands out nothing
before each other gateway leaves the schedule to this very change and runs the same schedule. A gateway leaves it to one
at a time, or changes it itself, so two changes never have everybody's word: of two that begin at once neither does.
What is handed out has a higher epoch, and is told to whoever beats a lower one, by whoever runs it; a gateway that was
away catches up so. Nobody tells of a schedule that is not written down: who was started again runs it, too, and that is
why no other one can get its epoch.
"""

from __future__ import annotations

from typing import Protocol

from rosa_server.plan.fleet_plan import FleetPlan

TELLS_EVERY_S = 0.5  # one other gateway, of a schedule that it does not run yet
FREE, OWN, LEFT = "free", "own", "left"  # nobody changes the schedule; this gateway does; another one
BEGINS, ENDS, ASKED, LET_GO = "begins", "ends", "asked", "let_go"

# (state, what happens) -> the next state. What is not here cannot happen.
CHANGES = {
    (FREE, BEGINS): OWN,
    (FREE, ASKED): LEFT,
    (OWN, ENDS): FREE,
    (LEFT, LET_GO): FREE,
}


class KeepsPlan(Protocol):
    """Writes down which schedule runs, while everything goes on."""

    def keep_plan(self, plan: FleetPlan) -> int:
        """Begin to write it down. Returns the number of this writing."""

    def kept(self, number: int) -> bool | None:
        """Whether that is written down; false where it could not be; None: it is under way."""


class Succession:
    """Of one gateway."""

    def __init__(self, life: str, plan: FleetPlan, keeper: KeepsPlan) -> None:
        """`life`: of its process. `plan`: what it begins with."""
        self._life, self._keeper = life, keeper
        self.plan = plan
        self.state = FREE
        self.node = ""  # whom it is left to
        self.occupied = False  # with something else that works on servers: the schedule is left to nobody now
        self._change = ""  # the name of the change
        self._begun = 0  # changes of this gateway
        self._next: FleetPlan | None = None  # that is to run when it is written down
        self._writing: int | None = None
        self._told_s: dict[str, float] = {}  # node -> when it was told last

    def _happens(self, event: str) -> None:
        after = CHANGES.get((self.state, event))
        if after is None:
            raise ValueError(f"{event} cannot happen to a schedule that is {self.state}")
        self.state = after

    # -- who changes it ------------------------------------------------------------------------------------------------

    def begins(self) -> bool:
        """This gateway begins to change the schedule; false where it is left to another one."""
        if self.state != FREE:
            return False
        self._happens(BEGINS)
        self._begun += 1
        self._change = f"{self._life}/{self._begun}"
        return True

    def ends(self) -> None:
        """This gateway changes it no more."""
        self._happens(ENDS)
        self._change = ""

    def hears(self, node: str, life: str, change: str) -> None:
        """What another gateway says: the change that it makes, or leaves to somebody."""
        if self.state == LEFT and node == self.node and change != self._change:
            self._lets_go()
        if self.state == FREE and not self.occupied and change.startswith(f"{life}/"):
            self._happens(ASKED)
            self.node, self._change = node, change

    def lost(self, node: str) -> None:
        """Another gateway is there no more."""
        if self.state == LEFT and node == self.node:
            self._lets_go()

    def _lets_go(self) -> None:
        self._happens(LET_GO)
        self.node = self._change = ""

    def says(self) -> str:
        """What a beat says of it. An own change is asked for at once; another one's is agreed to when what runs here
        is written down."""
        return self._change if self.state == OWN or self.written() else ""

    def has_word(self, change: str) -> bool:
        """Whether this is what another gateway says that leaves the schedule to this one's change."""
        return self.state == OWN and change == self._change

    # -- what runs -----------------------------------------------------------------------------------------------------

    def prepares(self, plan: FleetPlan) -> None:
        """It is to run next, and is written down first: who hands out a schedule and is started again has it."""
        self._next, self._writing = plan, self._keeper.keep_plan(plan)

    def prepared(self) -> FleetPlan | None:
        """What was prepared, and is written down."""
        return self._next if self._next is not None and self.written() else None

    @property
    def settled(self) -> bool:
        """Nothing is prepared, and what runs is written down."""
        return self._next is None and self.written()

    def runs(self, plan: FleetPlan) -> None:
        """This gateway runs it from now on."""
        if plan is not self._next:
            self._writing = self._keeper.keep_plan(plan)
        self.plan, self._next = plan, None
        self._told_s.clear()

    def written(self) -> bool:
        """Whether what runs here is written down. One that could not be is tried again."""
        if self._writing is not None:
            done = self._keeper.kept(self._writing)
            if done:
                self._writing = None
            elif done is False:
                self._writing = self._keeper.keep_plan(self._next or self.plan)
        return self._writing is None

    def to_tell(self, now_s: float, node: str, epoch: int) -> bool:
        """Whether a gateway that says it runs this epoch is told now of what runs here."""
        if (
            epoch >= self.plan.epoch
            or not self.written()
            or now_s < self._told_s.get(node, 0.0) + TELLS_EVERY_S
        ):
            return False
        self._told_s[node] = now_s
        return True
