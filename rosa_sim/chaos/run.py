"""One plan, its verdict; a failing plan made as small as it gets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rosa_sim.chaos.plan import Plan
from rosa_sim.chaos.watch import Broken
from rosa_sim.chaos.world import ChaosWorld
from rosa_sim.garbage import searched_seldom

if TYPE_CHECKING:
    from rosa_sim.chaos.nodes_world import NodesWorld

MAX_TRIES = 300  # runs that one shrinking may cost


@dataclass(frozen=True)
class Verdict:
    """What came of a plan. `rule` is empty when every promise held."""

    plan: Plan
    rule: str = ""
    words: str = ""
    at_s: float = 0.0
    robot_hours: float = 0.0
    events: int = 0
    wall_s: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)


@searched_seldom()
def run(plan: Plan) -> Verdict:
    """Play a plan with both watches on."""
    logging.getLogger("rosa.link").setLevel(logging.CRITICAL)  # a lost gateway is no news here
    begun_s = time.perf_counter()
    rule, words, at_s = "", "", 0.0
    world = ChaosWorld(plan) if plan.nodes == 1 else _of_nodes(plan)
    try:
        world.play()
    except Broken as broken:
        rule, words, at_s = broken.rule, str(broken), broken.now_s
    except Exception as error:  # an assertion of the code under test is a broken promise as well
        rule, at_s = f"raised {type(error).__name__}", world.now_s
        words = f"{at_s:.6f} s: {rule}: {error}"
    hours = plan.robots * world.now_s / 3600
    wall_s = time.perf_counter() - begun_s
    return Verdict(plan, rule, words, at_s, hours, world.events, wall_s, dict(world.counts))


def _of_nodes(plan: Plan) -> NodesWorld:
    # Imported here: its classes extend the cores, which those that are compiled do not allow.
    from rosa_sim.chaos.nodes_world import NodesWorld

    return NodesWorld(plan)


def shrink(
    failed: Verdict, say: Callable[[str], None] | None = None, play: Callable[[Plan], Verdict] = run
) -> Verdict:
    """The smallest plan found that breaks the same rule: fewer faults, fewer robots, less time, fewer targets."""
    best, tries, progress = failed, 0, True
    while progress and tries < MAX_TRIES:
        progress = False
        for smaller in _smaller(best.plan, best.at_s):
            if smaller == best.plan:
                continue
            tries += 1
            verdict = play(smaller)
            if verdict.rule == failed.rule:
                best, progress = verdict, True
                if say is not None:
                    plan = best.plan
                    say(f"{len(plan.faults)} faults, {plan.robots} robots, {plan.seconds:g} s")
                break
            if tries >= MAX_TRIES:
                break
    return best


def _smaller(plan: Plan, broke_s: float) -> Iterator[Plan]:
    """Plans with less in them, the boldest first."""
    faults = plan.faults
    ends_s = round(broke_s + 0.001, 3)
    if ends_s < plan.seconds * 0.9:
        begun = tuple(fault for fault in faults if fault.at_s < ends_s)
        cut = tuple(replace(f, lasts_s=min(f.lasts_s, round(ends_s - f.at_s, 6))) for f in begun)
        yield replace(plan, seconds=ends_s, faults=begun)
        yield replace(plan, seconds=ends_s, faults=cut)
    size = len(faults)
    while size:
        for first in range(0, len(faults), size):
            yield replace(plan, faults=faults[:first] + faults[first + size :])
        size //= 2
    for robots in sorted({1, 2, plan.robots // 4, plan.robots // 2, plan.robots - 1}):
        if 4 <= robots < plan.robots or (1 <= robots < plan.robots and plan.scenario == "p4"):
            yield replace(plan, robots=robots)
    plain = replace(plan, jitter_ms=0.0, standby=0, camera_period_s=0.0, queue_limit=256)
    if plain != plan:
        yield plain
        yield replace(plan, jitter_ms=0.0)
        yield replace(plan, standby=0)
        yield replace(plan, queue_limit=256)
    for nodes in sorted({2, plan.nodes // 2, plan.nodes - 1}):
        if 2 <= nodes < plan.nodes:
            yield replace(plan, nodes=nodes)
    for index, fault in enumerate(faults):
        rest = (faults[:index], faults[index + 1 :])
        if len(fault.targets) > 1:
            yield replace(plan, faults=(*rest[0], replace(fault, targets=fault.targets[:1]), *rest[1]))
        if fault.lasts_s > 0.1:
            yield replace(
                plan, faults=(*rest[0], replace(fault, lasts_s=round(fault.lasts_s / 2, 6)), *rest[1])
            )
