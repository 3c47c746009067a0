"""The cells that are searched. Together they contain every fallback of every component, and every policy.

Limits are small, so that each is reached: two misses in a row, two unsafe verdicts, four stops with no action between,
one retry; one miss and one verdict `AT_ONCE`.
"""

from __future__ import annotations

from dataclasses import replace

from rosa_client.runtime.runtime import RobotRuntime
from rosa_contract.config.cameras import CameraSpec
from rosa_contract.config.factory import parse_factory
from rosa_contract.config.robot import JointLimits, RobotSpec

ROBOT = RobotSpec(
    name="two_joints",
    joints=("a", "b"),
    limits=JointLimits((-1.0, -1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
    cameras={"front": CameraSpec(96, 96)},
    home_rad=(0.0, 0.0),
    safe_rad=(0.5, 0.5),
    drop_rad=(0.3, 0.3),
)

TASK = """
server_cluster: {{num_servers: 9}}
robot_fleet: [{{task: t, num_robots: 1}}]
t:
  pipeline: {{action_period_ms: 400, system2_to_system1_call_ratio: {ratio}{more}}}
  task_retry: {{max_task_retries: 1, on_max_task_retries: {policy}}}
  safety_and_slo_violation:
    max_consecutive_safety_replan: {limit}
    max_consecutive_slo_violation: {limit}
    max_stops_without_action: {stops}
    on_max_violation: {policy}
  components:
{components}
"""

NO_PLACE_TO_PUT_DOWN = ("planned strictly",)
# Cells whose next chunk is inferred while one plays, with what else their pipeline says.
ASYNCHRONOUS = {
    "asynchronous": "",
    "asynchronous, guarded": "",
    "asynchronous, planned": "",
    "asynchronous, planned ahead": ", planning: ahead",
    "asynchronous, all four": "",
}
# Cells in which calls share what the robot saw.
SHARED = {"one observation": ", share_observation_ms: 300"}
AT_ONCE = ("strict",)  # the first violation reaches the limit, and its own fallback at the same time
COARSE = ("all four", "asynchronous, all four")  # searched with the coarse key; see `keys.py`

RESEND, PLAN, REPLAN = "stop_and_resend", "use_last_plan", "stop_and_replan"
RETURN, HUMAN, ABORT = "return_to_safe_state", "stop_and_call_human", "abort"

# Cell -> (policy of the limits, System 2 calls per System 1 call, fallback of each component).
CELLS: dict[str, tuple[str, float, dict[str, str]]] = {
    "pick and place": (HUMAN, 1, {"system1": RESEND, "monitor": RESEND}),
    "pick and place, safe": (RETURN, 1, {"system1": RETURN, "monitor": REPLAN}),
    "guarded": (RETURN, 1, {"system1": RESEND, "safety": RETURN}),
    "guarded, stands still": (RETURN, 1, {"system1": RETURN, "safety": RESEND}),
    "planned": (HUMAN, 0.5, {"system1": REPLAN, "system2": PLAN}),
    "planned, every time": (ABORT, 1, {"system1": PLAN, "system2": RESEND}),
    "guarded and watched": (HUMAN, 1, {"system1": RETURN, "safety": RESEND, "monitor": RETURN}),
    "inspection": (RETURN, 1, {"system1": RESEND, "system2": PLAN, "safety": REPLAN}),
    "strict": (ABORT, 1, {"system1": HUMAN, "safety": HUMAN, "monitor": HUMAN}),
    "planned strictly": (HUMAN, 1, {"system1": RESEND, "system2": HUMAN, "monitor": PLAN}),
    "careful planner": (RETURN, 1, {"system1": REPLAN, "system2": RETURN}),
    "one more": (ABORT, 1, {"system1": RESEND, "system2": REPLAN, "cable_watch": RETURN}),
    "all four": (RETURN, 1, {"system1": RESEND, "system2": PLAN, "safety": RETURN, "monitor": RESEND}),
    "lenient watch": (
        RETURN,
        1,
        {"system1": HUMAN, "system2": HUMAN, "cable_watch": PLAN, "monitor": RESEND},
    ),
    # Both a return and a reset can be owed at once, and each can be interrupted.
    "guarded, watch returns": (RETURN, 1, {"system1": HUMAN, "safety": RESEND, "monitor": RETURN}),
    "asynchronous": (HUMAN, 1, {"system1": RESEND, "monitor": RESEND}),
    "asynchronous, guarded": (RETURN, 1, {"system1": RETURN, "safety": RESEND}),
    "asynchronous, planned": (ABORT, 0.5, {"system1": PLAN, "system2": REPLAN}),
    "asynchronous, planned ahead": (HUMAN, 0.5, {"system1": REPLAN, "system2": PLAN}),
    "asynchronous, all four": (
        RETURN,
        0.5,
        {"system1": RESEND, "system2": PLAN, "safety": RETURN, "monitor": RESEND},
    ),
    "one observation": (HUMAN, 0.5, {"system1": RESEND, "system2": PLAN}),
    "lenient guard": (HUMAN, 1, {"system1": RESEND, "system2": PLAN, "safety": PLAN}),
}


def core_of(name: str) -> RobotRuntime:
    """A robot of this cell, before its first task."""
    policy, ratio, fallbacks = CELLS[name]
    periodic = {"system1": "", "system2": ""}
    lines = [
        f"    {key}: {{model: m_{key}, slo_ms: 200, fallback: {fallback}{periodic.get(key, ', freq_hz: 1')}}}"
        for key, fallback in fallbacks.items()
    ]
    limit = 1 if name in AT_ONCE else 2
    more = f", execution: asynchronous{ASYNCHRONOUS[name]}" if name in ASYNCHRONOUS else SHARED.get(name, "")
    text = TASK.format(
        policy=policy, limit=limit, stops=limit + 2, ratio=ratio, more=more, components="\n".join(lines)
    )
    robot = replace(ROBOT, drop_rad=None) if name in NO_PLACE_TO_PUT_DOWN else ROBOT
    return RobotRuntime("robot", parse_factory(text, name).tasks["t"], robot)
