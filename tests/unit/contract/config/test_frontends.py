"""The section `frontends` of a factory file: what is refused, with its path, and who may be reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_contract.config.factory import load_factory, parse_factory
from rosa_contract.errors import ConfigError
from rosa_server.serving.served import frontend_problems

ROOT = Path(__file__).parents[4]
WHOLE = yaml.safe_load((ROOT / "configs" / "frontends.yaml").read_text())


def changed(**changes: Any) -> str:
    one = {**WHOLE["frontends"]["openpi"], **changes}
    return yaml.safe_dump({**WHOLE, "frontends": {"openpi": one}})


def test_the_shipped_file_is_valid_and_on_loopback() -> None:
    factory = load_factory(ROOT / "configs" / "frontends.yaml")
    assert all(one.on_loopback for one in factory.frontends.values())
    assert frontend_problems(factory, insecure=False) == []


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"protocol": "openpy"}, "protocol"),
        ({"task": "pick_and_plaec"}, "task"),
        ({"component": "system3"}, "component"),
        ({"bind": "8000"}, "bind"),
        ({"bind": "tcp://127.0.0.1:8000"}, "bind"),
        ({"preset": "driod"}, "preset"),
        ({"actions": {}}, "actions"),
        ({"actions": {"actions": [{"columns": []}]}}, "actions.actions[0].columns"),
        ({"actions": {"a": [{"columns": [0], "relative_to": "joint_position"}]}}, "actions.a[0].relative_to"),
        ({"state": {"q": [{"key": "q", "gripper": "closed_sign"}]}}, "state.q[0].open_m"),
        ({"state": {"q": [{"key": "q", "gripper": "finger_pair", "open_m": 0.1}]}}, "state.q[0].gripper"),
        ({"state": {"q": [{"key": "q", "unit": "inch"}]}}, "state.q[0].unit"),
        ({"images": {"front": {"key": "image", "height": 0, "width": 8}}}, "images.front.height"),
        ({"images": {"a/b": {"key": "image", "height": 8, "width": 8}}}, "images.a/b"),
        ({"images": {"front": {"key": "i", "height": 8, "width": 8, "frame": -1}}}, "images.front.frame"),
        ({"tls_key": "key.pem"}, "tls_key"),
        ({"protocol": "gr00t", "tls_certificate": "c", "tls_key": "k"}, "tls_certificate"),
        ({"max_clients": 0}, "max_clients"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_path(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_factory(changed(**changes))
    assert [problem.path for problem in error.value.problems] == [f"frontends.openpi.{path}"], error.value


@pytest.mark.parametrize(
    ("changes", "keys", "insecure", "refused"),
    [
        ({"bind": "0.0.0.0:8000"}, "", False, "needs no API key"),
        ({"bind": "0.0.0.0:8000"}, "keys", False, "can be read on its way"),
        ({"bind": "0.0.0.0:8000", "tls_certificate": "c", "tls_key": "k"}, "keys", False, ""),
        ({"bind": "0.0.0.0:8000"}, "", True, ""),
        ({"bind": "localhost:8000"}, "", False, ""),
        ({"bind": "[::1]:8000"}, "", False, ""),
        ({"bind": "gpu-box:8000"}, "", False, "needs no API key"),
    ],
)
def test_beyond_loopback_a_frontend_needs_keys_and_tls(
    changes: dict[str, str], keys: str, insecure: bool, refused: str
) -> None:
    text = yaml.safe_load(changed(**changes))
    factory = parse_factory(yaml.safe_dump({**text, "gateway": {"curve_keys": keys}}))
    problems = frontend_problems(factory, insecure)
    assert [refused in problem.words for problem in problems] == [True] * bool(refused)


def test_two_frontends_want_two_ports() -> None:
    one = WHOLE["frontends"]["openpi"]
    factory = parse_factory(yaml.safe_dump({**WHOLE, "frontends": {"a": one, "b": one}}))
    (problem,) = frontend_problems(factory, insecure=False)
    assert (problem.path, problem.cause) == ("frontends.b.bind", "conflict")
