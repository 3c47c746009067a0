"""The numbers of the ROSA paper that our schedules are compared with, and its workloads (sections 4.1 to 4.3)."""

from __future__ import annotations

from benchmarks import ROOT
from rosa_contract.config.factory import load_factory
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.problem import Problem, problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary

LIBRARY = ProfileLibrary()
Row = dict[str, object]

ORDER = ("system1", "system2", "safety", "monitor")
TABLE_3 = {8: "5:1:1:1", 16: "5:1:1:1", 32: "5:1:1:1", 64: "4:1:2:1"}
# Actions/s. 16 is not published: 1.26 (4.3, Figure 12) times the best static allocation, which is bound by its two
# System 1 servers, as at 32 robots, where it is 89.4 / 2.20.
P4_HZ = {8: 23.9, 16: 1.26 * 89.4 / 2.20, 32: 89.4, 64: 78.8}
OTHER_HZ = {("p2", 32): 106.9, ("p3", 32): 106.9}
INFERRED = "inferred: 1.26 x 89.4 / 2.20"
SECTIONS = {
    ("p4", 8): "4.2",
    ("p4", 16): INFERRED,
    ("p4", 32): "4.2",
    ("p4", 64): "4.3",
    **dict.fromkeys(OTHER_HZ, "4.2"),
}
DEDICATED_HZ = 7.4  # 4.2: one GPU per model, two robots on P4
FIGURE_11 = {"equal_partition": 5.5, "weighted_partition": 8.6}  # "up to": times the servers of ROSA
FIGURE_12 = {8: "similar", 16: "1.26", 32: "2.20", 64: "-"}
# (baseline, robots, actions/s, SLO-qualified, where it is published), all on P4
BASELINES = (
    ("equal_partition", 8, 29.5, True, "4.2"),
    ("equal_partition", 32, None, False, "4.2, 4.3"),
    ("weighted_partition", 16, None, False, "4.3"),
    ("weighted_partition", 64, None, False, "4.3: safety SLO infeasible"),
    ("gpu_per_model", 2, DEDICATED_HZ, True, "4.2, fitted"),
    ("gpu_per_robot", 8, None, False, "4.2: no qualified point"),
)
UNCAPPED = ((32, 107.3, True, "4.3"), (64, 145.5, False, "4.3, raw rate fitted"))
PERIODS_MS, FLEETS = (50, 100, 200, 400, 800), (1, 2, 4, 8, 16, 32)  # Figure 14
WITHIN = 0.15


def workload(name: str, robots: int) -> Problem:
    """A task set of Table 1 or 2 on eight servers."""
    return problem_from(load_factory(ROOT / "configs" / "paper" / f"{name}.yaml")).scaled_to(robots)


def allocation(schedule: Schedule) -> str:
    """S1:S2:safety:monitor as in Table 3."""
    counts = schedule.servers_by_component()
    return ":".join(str(counts.get(component, 0)) for component in ORDER)
