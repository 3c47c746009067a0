"""The library franka-rs: whether it is there, and what it says."""

from __future__ import annotations

import sys
import weakref
from types import ModuleType
from typing import Any

import pytest

from rosa_client.drivers import DriverError, arms
from rosa_client.drivers.arms.franka_ports import INSTALL, FrankaRs, FrankaRsHand, library, said
from rosa_contract.config.arms import arm_settings
from tests.unit.client.drivers.scripted_franka import SPEC


def test_a_missing_library_is_one_line_that_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "franka", None)
    with pytest.raises(DriverError, match=f"arm_driver: franka needs the package franka-rs: {INSTALL}"):
        arms.create_arm("franka", SPEC, 0)


def test_another_package_of_that_name_is_not_taken_for_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "franka", arms)
    with pytest.raises(DriverError, match="is another"):
        library()


def test_what_the_library_says_becomes_one_line() -> None:
    text = "libfranka: Move command aborted: motion aborted by reflex!\ncontrol_command_success_rate: 1"
    assert said(ValueError(text)) == "Move command aborted: motion aborted by reflex"
    assert said(ValueError()) == "ValueError"


class Failed(Exception):
    kind = "realtime"


class Ended:
    """A loop that ends between two questions about it."""

    running = True

    def state(self) -> None:
        raise Failed("libfranka: Move command aborted!")


def test_an_arm_and_a_hand_that_are_left_are_free_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Connection:
        """Open as long as somebody holds it."""

        def __init__(self, address: str, realtime: str = "") -> None:
            made.append(weakref.ref(self))

        def set_collision_behavior_simple(self, *thresholds: object) -> None:
            pass

    made: list[weakref.ref[Connection]] = []
    loaded: Any = ModuleType("franka")
    loaded.JointTargets, loaded.FrankaError = Ended, Failed
    loaded.Robot = loaded.Gripper = Connection
    monkeypatch.setitem(sys.modules, "franka", loaded)
    settings = arm_settings(SPEC.name, "franka", SPEC.arm)
    for port in (FrankaRs(settings), FrankaRsHand(settings, 0.08)):
        port.connect()
        assert made[-1]() is not None
        port.leave()
        assert made[-1]() is None


def test_a_loop_that_ends_while_it_is_asked_has_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: Any = ModuleType("franka")
    loaded.JointTargets, loaded.FrankaError = Ended, Failed
    loaded.Robot = lambda address, realtime: loaded
    loaded.set_collision_behavior_simple = lambda *thresholds: None
    loaded.joint_targets = lambda **settings: Ended()
    monkeypatch.setitem(sys.modules, "franka", loaded)
    fci = FrankaRs(arm_settings(SPEC.name, "franka", SPEC.arm))
    fci.connect()
    fci.follow()
    assert fci.newest() is None
