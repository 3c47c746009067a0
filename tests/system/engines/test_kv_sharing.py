"""Four components of two robots ask one model over real sockets: one look per observation, answers as alone."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from rosa_server.models.backend import ModelInput
from rosa_server.models.panda.vision import save_weights
from rosa_server.models.vla.backend import VlaBackend
from rosa_server.models.vla.network import VlaNetwork
from rosa_server.models.vla.speech import VERDICTS, Speech
from rosa_server.models.vla.tokenizer import Tokenizer
from rosa_sim.demo import sharing
from tests.system.server_harness import PATIENCE_S, Robot, Server, serving

ROBOTS = ("r1", "r2")
OBSERVATIONS = 4
PLANS = ("put the red block into the left bin", "put the blue block into the right bin", "all done")
PROMPTS = {
    "system1": PLANS[0],
    "system2": "red goes left, the rest goes right",
    "safety": "is the workcell safe?",
    "monitor": "ongoing, done, or failed?",
}
CAMERAS = {name: m.CameraInfo(height=96, width=96, encoding="rgb8") for name in ("front", "wrist")}
STATE = {"joint_position": 7, "gripper_width": 1}
FACTORY = """
server_cluster: {{{{num_servers: 2}}}}
robot_fleet: [{{{{task: pick, num_robots: 2}}}}]
pick:
  pipeline: {{{{action_period_ms: 400}}}}
  components:
    system1: {{{{model: vla, slo_ms: 20000}}}}
    system2: {{{{model: vla, slo_ms: 20000}}}}
    safety: {{{{model: vla, slo_ms: 20000, freq_hz: 2}}}}
    monitor: {{{{model: vla, slo_ms: 20000, freq_hz: 1}}}}
models:
  vla: {{{{workers: 2, backend: vla, options: {{{{engine: kv_sharing, weights: "{weights}"}}}}}}}}
gateway: {{{{bind: "tcp://127.0.0.1:{{port}}", metrics_port: {{metrics_port}}}}}}
"""


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random ones, with words that fit them."""
    path = tmp_path_factory.mktemp("vla") / "random.safetensors"
    torch.manual_seed(5)
    save_weights(VlaNetwork(), path, {})
    verdicts = [word for words in VERDICTS.values() for word in words]
    Speech(Tokenizer.train([*PLANS, *verdicts] * 5, 400), PLANS).write(path.with_suffix(".words.json"))
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, weights: Path) -> Iterator[Server]:
    factory = FACTORY.format(weights=weights)
    with serving(tmp_path_factory.mktemp("kv_sharing"), factory=factory) as running:
        yield running


@pytest.fixture(scope="module")
def alone(weights: Path) -> VlaBackend:
    """The same model without gateway, worker and engine."""
    backend = VlaBackend(str(weights))
    backend.load()
    return backend


def seen(name: str, number: int, component: str) -> ModelInput:
    """What this robot sees in this observation: noise, which no two of them share."""
    rng = np.random.default_rng([ROBOTS.index(name), number])
    images = {camera: rng.integers(0, 256, (96, 96, 3), np.uint8) for camera in CAMERAS}
    state = {
        "joint_position": rng.uniform(-0.5, 0.5, 7).astype(np.float32),
        "gripper_width": np.array([0.04], np.float32),
    }
    return ModelInput(component, PROMPTS[component], images, state)


def send(one: Robot, request_id: int, look: ModelInput, observation: int | None) -> None:
    images = {name: EncodedImage("rgb8", 96, 96, bytes(picture)) for name, picture in look.images.items()}
    said = {"images": images, "state": dict(look.state), "observation": observation}
    one.request(request_id, look.prompt, component=look.component, **said)


def check(answer: m.Response, look: ModelInput, alone: VlaBackend) -> None:
    assert answer.status == "ok" and answer.output is not None, answer
    (expected,) = alone.infer([look])
    assert (answer.output.verdict, answer.output.text) == (expected.verdict, expected.text)
    if look.component == "system1":
        got = answer.output.arrays["actions"]
        # In a batch the network's output is the same to 1e-6; inverse kinematics near a singular pose makes more of it.
        np.testing.assert_allclose(got, expected.arrays["actions"], atol=1e-3)


def test_the_components_of_each_robot_share_one_look_and_answer_as_alone(
    server: Server, alone: VlaBackend
) -> None:
    robots = [Robot(server, name).join(cameras=CAMERAS, state=STATE) for name in ROBOTS]
    try:
        for number in range(OBSERVATIONS):  # both robots count their observations from 0
            looks = {
                (name, request_id): seen(name, number, component)
                for name in ROBOTS
                for request_id, component in enumerate(PROMPTS, start=number * len(PROMPTS))
            }
            for (name, request_id), look in looks.items():
                send(robots[ROBOTS.index(name)], request_id, look, number)
            for one in robots:
                for _ in PROMPTS:
                    answer = one.answer()
                    check(answer, looks[one.name, answer.request_id], alone)
    finally:
        for one in robots:
            one.close()
    found = sharing.read(server.metrics_port)
    assert found is not None
    observations = OBSERVATIONS * len(ROBOTS)
    assert (found.prefills, found.saved) == (observations, observations * (len(PROMPTS) - 1))
    end_s = time.monotonic() + PATIENCE_S
    while not all("prefills" in words and "saved" in words for words in health(server).values()):
        assert time.monotonic() < end_s, health(server)
        time.sleep(0.1)  # the page is drawn anew about once a second


def health(server: Server) -> dict[str, str]:
    """What /health says of each worker."""
    try:
        page = urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/health", timeout=10)
    except urllib.error.HTTPError as not_ready:  # as it was when the page was drawn
        page = not_ready
    with page:
        workers: dict[str, str] = json.loads(page.read())["workers"]
    return workers


def test_a_wrong_number_is_no_way_to_another_observation(server: Server, alone: VlaBackend) -> None:
    """One number for two observations, a session that begins again, and no number at all: each answer is right."""
    first, second = seen("r1", 100, "system1"), seen("r1", 101, "system1")
    for look, observation in ((first, 7), (second, 7), (first, None)):
        one = Robot(server, "r1").join(cameras=CAMERAS, state=STATE)
        try:
            send(one, 1, look, observation)
            check(one.answer(), look, alone)
            send(one, 2, second, observation)
            check(one.answer(), second, alone)
        finally:
            one.close()
