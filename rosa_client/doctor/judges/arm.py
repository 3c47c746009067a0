"""The arm: whether it can be reached, what it is doing, what is wrong with it, and whether its joints are heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rosa_client.doctor.judges.finding import FAIL, WARN, Finding, fine, inactive, skipped
from rosa_client.drivers.arms.action_names import short, why_missing
from rosa_client.drivers.arms.ros2_control_rules import ACTIVE

# Franka's documentation of libfranka, "Network bandwidth, delay and jitter test": one period is 1 ms, and of that
# the controller and the control box need their shares.
FCI_WARN_MS, FCI_FAIL_MS = 0.5, 1.0
MIN_JOINT_STATES_HZ = 20.0
ARM_NODE = "arm_node"


@dataclass(frozen=True)
class AddressFact:
    """A machine on the network: whether its port takes connections, and how fast it answers a ping."""

    host: str
    port: int | None  # None: only pinged
    connected: bool  # without a port: its name is known
    problem: str = ""
    pings_ms: Sequence[float] = ()
    sent: int = 0  # pings; 0: there is no ping here


@dataclass(frozen=True)
class ArmFact:
    """What the robot's topics say. `state` is empty where no arm node is heard."""

    state: str = ""  # holding, playing, moving or returning
    fault: str = ""
    node_state: str = ""  # of the arm node's life cycle, such as inactive; empty: not known
    emergency_stop: bool = False
    joints: Sequence[str] = ()  # of joint_states; empty: none came
    joints_hz: float = 0.0
    # With ros2_control: controller -> its topic, and whether somebody is at its other end.
    controllers: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    states: Mapping[str, str] = field(
        default_factory=dict
    )  # controller -> its state, as its manager lists it
    # Action that the gripper needs -> its type, and the types that somebody serves under that name.
    actions: Mapping[str, tuple[str, Sequence[str]]] = field(default_factory=dict)


def judge_arm(driver: str, joints: Sequence[str], fact: ArmFact, franka: bool) -> list[Finding]:
    """Mode and errors, and joint states, as far as the topics tell. `joints`: the names in the robot file."""
    findings = []
    for name, (topic, there) in fact.controllers.items():
        check = f"controller.{name}"
        words = f"start it: ros2 control switch_controllers --activate {name}; see `ros2 control list_controllers`"
        # One that is loaded subscribes and obeys nothing; one that is not listed may have another name.
        state = fact.states.get(name, ACTIVE)
        problem = f"nobody is at {topic}" if not there else "" if state == ACTIVE else f"it is {state}"
        missing = Finding(check, FAIL, "no_controller", problem, words)
        findings.append(missing if problem else fine(check, f"is at {topic}"))
    if fact.actions:
        findings.append(_gripper(fact))
    return [*findings, _state(driver, fact, franka), _joints(joints, fact)]


def _gripper(fact: ArmFact) -> Finding:
    """Its action servers, before the first grasp needs one."""
    check = "gripper"
    for name, (wanted, served) in fact.actions.items():
        if problem := why_missing(name, wanted, served):
            cause = "wrong_action_type" if served else "no_action_server"
            do = "see `ros2 action list -t` and `ros2 control list_controllers`; correct arm.gripper, or start it"
            return Finding(check, FAIL, cause, problem, do)
    names = ", ".join(f"{name} ({short(wanted)})" for name, (wanted, _) in fact.actions.items())
    return fine(check, f"is served: {names}")


def _state(driver: str, fact: ArmFact, franka: bool) -> Finding:
    check = "arm"
    if fact.emergency_stop:
        do = 'release it: rosa operator release ROBOT --why "..."'
        return Finding(check, FAIL, "emergency_stop", "its emergency stop is latched", do)
    if found := inactive(check, ARM_NODE, fact.node_state):
        return found
    if fact.fault:
        how = "as docs/franka.md says" if franka else "on its own controller, as its maker says"
        do = (
            f"recover it {how}; then `rosa operator decide ROBOT recover_arm`, or call arm_node/recover. Where a"
            " measurement is wrong, docs/local_safety.md says what to look for"
        )
        return Finding(check, FAIL, "arm_fault", f"it cannot move: {fact.fault}", do)
    if fact.state:
        return fine(check, f"driver {driver}: {fact.state}, no fault")
    return skipped(
        check, "not_heard", "no arm node is heard", "start the robot's nodes to see mode and errors"
    )


def _joints(joints: Sequence[str], fact: ArmFact) -> Finding:
    check = "joint_states"
    if not fact.joints:
        return skipped(check, "not_heard", "none are heard", "start the robot's nodes")
    missing = [name for name in joints if name not in fact.joints]
    if missing:
        words = f"{', '.join(missing)} missing; heard: {', '.join(fact.joints)}"
        do = "the arm node was started with another robot file: give it this one"
        return Finding(check, FAIL, "wrong_joints", words, do)
    if fact.joints_hz < MIN_JOINT_STATES_HZ:
        words = f"{len(joints)} joints at {fact.joints_hz:.0f} Hz, expected {MIN_JOINT_STATES_HZ:g} at least"
        do = f"raise joint_state_rate_hz of the {ARM_NODE}; at its 50 Hz, end what else keeps this machine busy"
        return Finding(check, WARN, "slow", words, do)
    return fine(check, f"{len(joints)} joints at {fact.joints_hz:.0f} Hz")


def judge_driver(driver: str, problem: str) -> Finding:
    """The packages of the arm's driver; `problem` says what is missing, empty when nothing is."""
    if not problem:
        return fine("arm_driver", f"{driver}: its packages are installed")
    do = "install what is missing in the environment that the robot's nodes run in"
    return Finding("arm_driver", FAIL, "cannot_load", problem.removeprefix("arm_driver: "), do)


def judge_address(fact: AddressFact | None, hard_real_time: bool, franka: bool) -> list[Finding]:
    """The arm's own computer, where its address was passed."""
    if fact is None:
        return [skipped("arm_address", "no_address", "no --arm given")]
    place = fact.host if fact.port is None else f"{fact.host}:{fact.port}"
    if not fact.connected:
        words = f"{place} takes no connection: {fact.problem}"
        do = "check cable and address" + (
            "; in Desk unlock the brakes and activate FCI" if franka else " and port"
        )
        return [Finding("arm_address", FAIL, "unreachable", words, do)]
    if fact.port is None:
        do = "pass it with its port to have that looked at: --arm HOST:PORT"
        return [
            skipped("arm_address", "no_port", f"{fact.host} is only pinged", do),
            _ping(fact, hard_real_time),
        ]
    return [fine("arm_address", f"{place} takes connections"), _ping(fact, hard_real_time)]


def _ping(fact: AddressFact, hard: bool) -> Finding:
    check = "arm_network"
    times = sorted(fact.pings_ms)
    if not fact.sent:
        return skipped(check, "no_ping", "there is no `ping` here", "sudo apt-get install iputils-ping")
    if len(times) < fact.sent:
        words = f"{fact.sent - len(times)} of {fact.sent} pings to {fact.host} had no answer"
        return Finding(
            check, FAIL if hard else WARN, "lost_messages", words, "connect the arm by its own cable"
        )
    words = f"ping {times[len(times) // 2]:.2f} ms, slowest {times[-1]:.2f} ms"
    if not hard or times[-1] <= FCI_WARN_MS:
        return fine(check, words)
    level = FAIL if times[-1] > FCI_FAIL_MS else WARN
    do = "connect the arm to a separate network card, without a switch; docs/franka.md"
    return Finding(check, level, "slow", f"{words}: the arm's period is 1 ms", do)
