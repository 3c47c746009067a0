"""A fault plan: which fleet, which faults, when. Plain data; a seed makes one, a JSON file keeps one."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

NEVER = -1.0  # an operator who never answers

# What a fault's `amount` means, and the range it is drawn from.
KINDS: dict[str, tuple[str, float, float]] = {
    "worker_killed": ("seconds until the gateway notices", 0.0, 1.0),
    "worker_slow": ("times slower", 1.5, 40.0),
    "worker_nonsense": ("which nonsense, see `world.NONSENSE`", 0, 5.99),
    "gateway_restarted": ("unused", 0.0, 0.0),
    "message_loss": ("share of messages", 0.02, 0.9),
    "message_delay": ("seconds more", 0.005, 1.5),
    "message_duplication": ("share of messages", 0.05, 1.0),
    "message_reordering": ("seconds more, at most, each message for itself", 0.005, 0.5),
    "partition": ("0: both ways, 1: up, 2: down", 0, 2.99),
    "robot_restarted": ("unused", 0.0, 0.0),
    "robot_hasty": ("requests per second beside its own", 5.0, 100.0),
    "operator_late": ("seconds until an answer; below 0: never", 0.5, 40.0),
    "verdict_unsafe": ("share of safety's answers", 0.05, 1.0),
    "verdict_failed": ("share of the monitor's answers", 0.05, 1.0),
    "verdict_done": ("share of the monitor's answers", 0.05, 1.0),
    "rescheduled": ("which other schedule, see `rescheduling.py`", 0, 1e6),
}
# What goes wrong between several nodes, each with a gateway of one schedule.
NODE_KINDS: dict[str, tuple[str, float, float]] = {
    "node_killed": ("below 0.5: its processes, which the others notice at once; else the machine", 0.0, 1.0),
    "node_cut": ("below 0.5: from other nodes; else from the robots of the others as well", 0.0, 1.0),
    "adopted": ("which other schedule is ordered, and at which node", 0.0, 1e3),
    "peer_loss": ("share of messages", 0.02, 0.9),
    "peer_delay": ("seconds more", 0.005, 1.5),
    "peer_duplication": ("share of messages", 0.05, 1.0),
    "peer_reordering": ("seconds more, at most, each message for itself", 0.005, 0.5),
}
RESCHEDULED = "rescheduled"
DRAWN = tuple(
    kind for kind in KINDS if kind != RESCHEDULED
)  # that one is drawn apart: seeds mean what they meant
OF_SERVERS = ("worker_killed", "worker_slow", "worker_nonsense")
OF_ALL = ("rescheduled", "gateway_restarted", "verdict_unsafe", "verdict_failed", "verdict_done")
SCENARIOS = ("p4", "p4", "p4", "mix2", "mix4")  # tasks with a monitor come to an end by themselves
FLEETS = (4, 8, 16, 32)
SERVERS = 8  # of the shipped factories


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at `at_s` for `lasts_s`. `targets`: numbers of robots or servers, modulo how many
    there are; empty: all of them."""

    at_s: float
    kind: str
    lasts_s: float
    amount: float = 0.0
    targets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS and self.kind not in NODE_KINDS:
            raise ValueError(f"fault: expected one of {', '.join(KINDS)}, got {self.kind!r}")
        if not (self.at_s >= 0 and self.lasts_s >= 0):
            raise ValueError(f"{self.kind}: expected times of at least 0, got {self.at_s} and {self.lasts_s}")

    def __str__(self) -> str:
        who = "all" if not self.targets else ",".join(map(str, self.targets))
        return (
            f"{self.at_s:8.3f} s  {self.kind:20} of {who} for {self.lasts_s:.3f} s, amount {self.amount:.3f}"
        )


@dataclass(frozen=True)
class Plan:
    """One run. After `seconds` nothing new goes wrong, and every task has to come to an end."""

    seed: int
    scenario: str
    robots: int
    seconds: float
    faults: tuple[Fault, ...]
    standby: int = 0  # servers that stand by
    queue_limit: int = 256  # `gateway.queue_per_model`
    control_period_s: float = 0.01
    camera_period_s: float = 0.0
    jitter_ms: float = 0.0
    nodes: int = 1  # gateways; with one it is the server

    def __str__(self) -> str:
        head = (
            f"seed {self.seed}: {self.robots} robots of {self.scenario} for {self.seconds:g} s, "
            f"{self.nodes} {'node' if self.nodes == 1 else 'nodes'}, "
            f"{self.standby} standby, queues of {self.queue_limit}, {len(self.faults)} faults"
        )
        return "\n".join([head, *(f"  {fault}" for fault in self.faults)])

    def save(self, path: Path, **more: Any) -> None:
        """Write it as JSON; `more` stands beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"plan": asdict(self), **more}, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Plan:
        """Read what `save` wrote. Raises `ValueError` for anything else."""
        try:
            fields = json.loads(path.read_text())["plan"]
            faults = tuple(Fault(**{**one, "targets": tuple(one["targets"])}) for one in fields.pop("faults"))
            return cls(**fields, faults=faults)
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"{path}: expected a saved fault plan; {type(error).__name__}: {error}"
            ) from error


def plan_of(seed: int, seconds: float | None = None, robots: int | None = None) -> Plan:
    """The plan of a seed. Its faults do not depend on `seconds`' or `robots`' defaults: each is drawn in any case."""
    rng = Random(f"chaos {seed}")
    drawn_s, drawn_robots = rng.choice((30.0, 60.0, 120.0, 300.0)), rng.choice(FLEETS)
    seconds, robots = seconds or drawn_s, robots or drawn_robots
    plan = Plan(
        seed,
        rng.choice(SCENARIOS),
        robots,
        seconds,
        (),
        standby=rng.choice((0, 0, 1)),
        queue_limit=rng.choice((1, 2, 4, 256, 256, 256)),
        control_period_s=rng.choice((0.0, 0.01, 0.02)),
        camera_period_s=rng.choice((0.0, 1 / 30)),
        jitter_ms=rng.choice((0.0, 0.0, 2.0, 20.0)),
    )
    faults = [_fault(rng, seconds, robots) for _ in range(rng.randint(1, 3 + int(seconds / 10)))]
    if plan.standby and rng.random() < 0.5:  # the standby joins while robots work already
        faults.append(Fault(0.0, "worker_killed", rng.uniform(1.0, seconds), 0.0, (SERVERS - 1,)))
    if rng.random() < 0.3:  # several at once
        at_s = rng.uniform(0.0, seconds * 0.8)
        faults += [_fault(rng, seconds, robots, at_s) for _ in range(rng.randint(2, 4))]
    faults += _reschedulings(seed, seconds)
    return replace(plan, faults=tuple(sorted(faults, key=lambda fault: fault.at_s)))


def _reschedulings(seed: int, seconds: float) -> list[Fault]:
    """In half of the runs, some."""
    rng = Random(f"rescheduled {seed}")
    found = []
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        at_s = rng.uniform(0.0, seconds * 0.9)
        lasts_s = min(rng.uniform(0.5, 20.0), seconds - at_s)
        found.append(Fault(round(at_s, 6), RESCHEDULED, round(lasts_s, 6), round(rng.uniform(0, 1e6), 6)))
    return found


def _fault(rng: Random, seconds: float, robots: int, at_s: float | None = None) -> Fault:
    kind = rng.choice(DRAWN)
    _, low, high = KINDS[kind]
    amount = low * (high / low) ** rng.random() if low > 0 else rng.uniform(low, high)
    if kind == "operator_late" and rng.random() < 0.3:
        amount = NEVER
    many = SERVERS if kind in OF_SERVERS else robots
    targets: tuple[int, ...] = ()
    if kind not in OF_ALL and rng.random() < 0.85:
        targets = tuple(sorted(rng.sample(range(many), min(many, 1 + int(rng.expovariate(0.7))))))
    when_s = rng.uniform(0.0, seconds * 0.95) if at_s is None else at_s
    lasts_s = min(rng.choice((0.05, 0.3, 1.0, 3.0, 8.0, 20.0)) * rng.uniform(0.5, 1.5), seconds - when_s)
    return Fault(round(when_s, 6), kind, round(lasts_s, 6), round(amount, 6), targets)
