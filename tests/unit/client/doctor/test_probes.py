"""The probes that need no robot: this machine, a port, a gateway that answers as told, and key files."""

from __future__ import annotations

import argparse
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
import zmq
import zmq.auth

from rosa_client.commands import doctor
from rosa_client.commands.doctor import tightest_call
from rosa_client.doctor.judges.gateway import GatewayFact
from rosa_client.doctor.probes import address
from rosa_client.doctor.probes.address import address_fact
from rosa_client.doctor.probes.controllers import GIVES, TAKES, controllers_of, gripper_actions_of
from rosa_client.doctor.probes.driver import driver_problem
from rosa_client.doctor.probes.gateway import MAX_LOST, NO_TASK, GatewayAsker, gateway_fact, keys_fact
from rosa_client.doctor.probes.host import HostClockWatch, host_fact
from rosa_client.doctor.probes.needs import needs_fact
from rosa_contract.config.robot import load_robot
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.serving.edge.access import make_keys
from rosa_sim.ports import free_port

ROOT = Path(__file__).parents[4]


def test_this_machine_has_facts(tmp_path: Path) -> None:
    for number, name in enumerate(["performance", "powersave"]):
        folder = tmp_path / f"cpu{number}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(name + "\n")
    fact = host_fact(str(tmp_path), HostClockWatch(), cpus=tmp_path)
    assert fact.governors == ["performance", "powersave"]
    assert fact.free_bytes is not None and fact.free_bytes > 0
    assert fact.release
    assert abs(fact.clock_step_s) < 1.0


def test_a_folder_that_is_not_there_has_no_free_space(tmp_path: Path) -> None:
    assert host_fact(str(tmp_path / "missing"), HostClockWatch()).free_bytes is None


def test_an_open_port_connects_and_a_closed_one_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert address_fact("127.0.0.1", port).connected
    closed = address_fact("127.0.0.1", port)
    assert not closed.connected and closed.problem
    assert closed.sent == 0, "who is not there is not pinged"


def test_an_address_that_cannot_be_one_takes_no_connection() -> None:
    """A slip of the finger is a line of the report, not its end."""
    fact = address_fact("172.16..2", 1337)
    assert not fact.connected and "label empty" in fact.problem


def test_without_a_port_nothing_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("connected"))
    assert address_fact("127.0.0.1", None).connected


@pytest.mark.parametrize("host", ["no-such-arm.invalid", "172.16..2"])
def test_a_host_that_there_is_not_is_no_host_that_cannot_be_pinged(host: str) -> None:
    """Without a port it is only pinged, and of a name that it does not know `ping` says nothing that counts."""
    [found] = doctor._address(host, False, False)
    assert (found.level, found.cause) == ("fail", "unreachable"), found
    assert host in found.found


@pytest.mark.parametrize("text", ["127.0.0.1:abc", "127.0.0.1:70000", "127.0.0.1:", ":1337", "fe80::1"])
def test_an_address_with_a_slip_is_wrong_input(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Port 70000 would be 4464, and any word no port at all."""
    parser = doctor.add_parser(argparse.ArgumentParser().add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args(["robot.yaml", "--arm", text])
    assert f"expected HOST or HOST:PORT, got {text!r}" in capsys.readouterr().err
    assert parser.parse_args(["robot.yaml", "--arm", "172.16.0.2:1337"]).arm == "172.16.0.2:1337"
    assert parser.parse_args(["robot.yaml"]).arm == ""


def test_no_address_is_connected_to_that_was_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A robot file may have the address of a robot that somebody else works with."""
    monkeypatch.setattr(address, "address_fact", lambda *_: pytest.fail("connected"))
    spec = load_robot(ROOT / "configs" / "robots" / "fr3_franka.yaml")
    assert any("." in str(value) for value in spec.arm.values()), "it names one"
    [finding] = doctor._address("", True, doctor.is_franka(spec))
    assert finding.cause == "no_address"


@pytest.mark.parametrize(
    ("driver", "arm", "franka"),
    [
        ("franka", {"address": "172.16.0.2"}, True),
        ("ros2_control", {"robot_state": "franka_robot_state_broadcaster/robot_state"}, True),
        ("ros2_control", {"gripper": {"kind": "franka"}}, True),
        ("ros2_control", {"gripper": {"kind": "none"}}, False),
        ("ros2_control", {}, False),
    ],
)
def test_a_franka_is_known_by_what_it_uses(driver: str, arm: dict[str, object], franka: bool) -> None:
    spec = replace(load_robot(ROOT / "configs" / "robots" / "panda.yaml"), arm_driver=driver, arm=arm)
    assert doctor.is_franka(spec) is franka


def test_a_driver_without_its_package_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "franka", None)
    spec = load_robot(ROOT / "configs" / "robots" / "fr3_franka.yaml")
    assert "pip install franka-rs" in driver_problem(spec)


@pytest.mark.parametrize("file", ["panda.yaml", "panda_ros2_control.yaml"])
def test_a_driver_with_its_packages_has_no_problem(file: str) -> None:
    assert driver_problem(load_robot(ROOT / "configs" / "robots" / file)) == ""


def test_a_driver_that_nobody_has_is_a_problem() -> None:
    spec = replace(load_robot(ROOT / "configs" / "robots" / "panda.yaml"), arm_driver="nobodys:Arm")
    assert "nobodys" in driver_problem(spec)


@contextmanager
def gateway(hello_cause: str, silent_after: int = 10**9) -> Iterator[tuple[str, list[m.Message]]]:
    """Answers health queries, and a hello with `hello_cause`; falls silent after `silent_after` messages."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    heard: list[m.Message] = []
    done = threading.Event()
    router = zmq.Context.instance().socket(zmq.ROUTER)
    router.linger = 0
    router.bind(endpoint)

    def serve() -> None:
        while not done.is_set():
            if not router.poll(20):
                continue
            who, *frames = router.recv_multipart()
            heard.append(codec.decode(frames))
            if len(heard) > silent_after:
                continue
            report = m.HealthReport(True, {"w0": "policy: idle"}, {}, [])
            answer = report if isinstance(heard[-1], m.HealthQuery) else m.Refused(hello_cause, "because")
            router.send_multipart([who, *codec.encode(answer)])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield endpoint, heard
    finally:
        done.set()
        thread.join()
        router.close()


def test_a_gateway_is_asked_for_its_health_and_greeted_for_a_task_that_nobody_has() -> None:
    with gateway("unknown_task") as (endpoint, heard):
        fact = gateway_fact(endpoint, "panda0", None, questions=5)
    assert (fact.cause, fact.lost, len(fact.round_trips_ms)) == ("", 0, 5)
    assert fact.ready and fact.workers == {"w0": "policy: idle"}
    assert fact.hello_cause == "unknown_task"
    hellos = [message for message in heard if isinstance(message, m.Hello)]
    assert [(hello.robot_id, hello.task) for hello in hellos] == [("panda0", NO_TASK)]


def test_a_server_that_demanded_keys_before_the_question_was_asked_is_said(tmp_path: Path) -> None:
    """As on a busy machine: libzmq has given the connection up for good, and a send would wait for it forever."""
    make_keys(tmp_path, "panda0")
    public, secret = zmq.auth.load_certificate(tmp_path / "server.key_secret")
    router = zmq.Context.instance().socket(zmq.ROUTER)
    router.linger, router.curve_server = 0, True
    router.curve_publickey, router.curve_secretkey = public, secret
    endpoint = f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}"
    asker = GatewayAsker(endpoint, None)
    facts: list[GatewayFact] = []
    try:
        end_s = time.monotonic() + 30.0
        while asker._handshakes.cause != "mismatch":
            assert time.monotonic() < end_s
            asker._handshakes.failure(inf)  # so that it does not connect again by itself
            time.sleep(0.01)
        asker._socket.disconnect(endpoint)  # which libzmq does by itself, now and then
        asking = threading.Thread(target=lambda: facts.append(asker.ask("panda0", 3)), daemon=True)
        asking.start()
        asking.join(30.0)
        assert not asking.is_alive(), "it waits for a connection that never comes"
    finally:
        router.close()
    asker.close()
    assert facts[0].cause == "mismatch" and "demands keys" in facts[0].reason


def test_a_server_that_falls_silent_is_not_waited_for_fifty_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rosa_client.doctor.probes.gateway.ANSWER_S", 0.5)
    with gateway("unknown_task", silent_after=2) as (endpoint, _):
        fact = gateway_fact(endpoint, "panda0", None, questions=50)
    assert (len(fact.round_trips_ms), fact.lost) == (1, MAX_LOST)


def test_questions_without_an_answer_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rosa_client.doctor.probes.gateway.ANSWER_S", 0.5)
    with gateway("unknown_task", silent_after=3) as (endpoint, _):
        fact = gateway_fact(endpoint, "panda0", None, questions=4)
    assert fact.lost == 2
    assert fact.hello_cause == ""


def test_nobody_at_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rosa_client.doctor.probes.gateway.CONNECT_S", 0.3)
    assert gateway_fact(f"tcp://127.0.0.1:{free_port()}", "panda0", None).cause == "no_answer"
    assert gateway_fact("localhost:5570", "panda0", None).cause == "bad_endpoint"


def test_key_files(tmp_path: Path) -> None:
    make_keys(tmp_path, "panda0")
    fact, keys = keys_fact(str(tmp_path), "panda0", "tcp://10.0.0.2:5570")
    assert fact.problem == "" and keys is not None and not fact.loopback
    (tmp_path / "robots" / "panda0.key_secret").chmod(0o644)
    fact, keys = keys_fact(str(tmp_path), "panda0", "tcp://127.0.0.1:5570")
    assert "others may read" in fact.problem and keys is None and fact.loopback
    fact, _ = keys_fact(str(tmp_path), "panda1", "tcp://127.0.0.1:5570")
    assert "no such file" in fact.problem


@pytest.mark.slow
def test_needs_are_those_that_rosa_check_knows() -> None:
    factory, robot = (
        str(ROOT / "configs" / "pick_place.yaml"),
        str(ROOT / "configs" / "robots" / "panda.yaml"),
    )
    assert needs_fact(factory, robot).fits == ["panda fits pick_and_place"]


def test_a_camera_that_a_model_needs_and_the_robot_lacks(tmp_path: Path) -> None:
    robot = tmp_path / "robot.yaml"
    text = (ROOT / "configs" / "robots" / "panda.yaml").read_text()
    robot.write_text(text.replace("\n  wrist:", "\n  side:"))
    fact = needs_fact(str(ROOT / "configs" / "pick_place.yaml"), str(robot))
    assert any("wrist" in problem for problem in fact.problems), fact


def test_a_model_whose_package_is_not_installed_on_the_robot_is_unknown_and_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bare.py").write_text("import a_package_that_only_the_server_has\n\nclass Kind: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    factory = tmp_path / "factory.yaml"
    text = (ROOT / "configs" / "pick_place.yaml").read_text()
    factory.write_text(text.replace("backend: flow_policy", "backend: bare:Kind"))
    fact = needs_fact(str(factory), str(ROOT / "configs" / "robots" / "panda.yaml"))
    assert not fact.problems
    assert "a_package_that_only_the_server_has" in fact.unknown


def test_the_tightest_deadline_of_a_factory() -> None:
    assert tightest_call(str(ROOT / "configs" / "pick_place.yaml")) == ("pick_and_place.system1", 500)


@pytest.mark.parametrize(
    ("arm", "expected"),
    [
        ({}, "/joint_trajectory_controller/joint_trajectory"),
        ({"namespace": "/left", "controller": "mover"}, "/left/mover/joint_trajectory"),
        ({"namespace": "left", "controller": "mover"}, "/panda3/left/mover/joint_trajectory"),
        ({"command": "forward_position", "controller": "mover"}, "/mover/commands"),
    ],
)
def test_the_controllers_of_a_robot_file(arm: dict[str, str], expected: str) -> None:
    spec = replace(load_robot(ROOT / "configs" / "robots" / "panda.yaml"), arm_driver="ros2_control", arm=arm)
    found = controllers_of("robot.yaml", spec, "panda3")
    assert (expected, TAKES) in found.values()
    topic, does = found["joint_state_broadcaster"]
    assert topic.endswith("/joint_states") and does == GIVES


def test_an_arm_without_controllers() -> None:
    spec = load_robot(ROOT / "configs" / "robots" / "panda.yaml")
    assert controllers_of("robot.yaml", spec, "panda3") == {}
    assert gripper_actions_of("robot.yaml", spec, "panda3") == {}


@pytest.mark.parametrize(
    ("gripper", "expected"),
    [
        ({"action": "hand/cmd"}, {"/hand/cmd": "control_msgs/action/GripperCommand"}),
        (
            {"kind": "parallel_gripper_command", "action": "hand/cmd"},
            {"/hand/cmd": "control_msgs/action/ParallelGripperCommand"},
        ),
        (
            {"kind": "franka", "action": "hand"},
            {"/hand/grasp": "franka_msgs/action/Grasp", "/hand/move": "franka_msgs/action/Move"},
        ),
        ({"kind": "none"}, {}),
    ],
)
def test_the_actions_of_a_gripper(gripper: dict[str, str], expected: dict[str, str]) -> None:
    panda = load_robot(ROOT / "configs" / "robots" / "panda.yaml")
    spec = replace(panda, arm_driver="ros2_control", arm={"gripper": gripper})
    assert gripper_actions_of("robot.yaml", spec, "panda3") == expected
