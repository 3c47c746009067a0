"""Clients of GR00T's protocol, one for each of its three dialects, written from what is on the wire.

Each reads and writes its own dialect and nothing else, so that an answer in another one fails.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgpack
import numpy as np
import zmq

from tests.system.frontends.clients import HAND
from tests.system.server_harness import PATIENCE_S

GR00T = {
    "protocol": "gr00t",
    "task": "pick",
    "prompt_key": "annotation.task",
    "horizon": 3,
    "images": {
        "front": {"key": "video.ego", "height": 8, "width": 8},
        "before": {"key": "video.ego", "height": 8, "width": 8, "frame": -5},
    },
    "state": {
        "joint_position": [{"key": "state.arm", "count": 7}],
        "gripper_width": [{"key": "state.hand", **HAND}],
    },
    "actions": {"action.arm": [{"columns": [*range(7)]}], "action.hand": [{"columns": [7], **HAND}]},
}
ONE_CAMERA = {**GR00T, "images": {"front": {"key": "video.ego", "height": 8, "width": 8}}}  # no history


def npy(value: Any) -> Any:
    file = io.BytesIO()
    np.save(file, value)
    return {"__ndarray_class__": True, "as_npy": file.getvalue()}


def nd(value: Any) -> Any:
    plain = {b"nd": True, b"type": value.dtype.str, b"kind": b"", b"shape": value.shape}
    return {**plain, b"data": value.tobytes()}


def from_npy(entry: Any) -> Any:
    if "__ndarray_class__" in entry:
        return np.load(io.BytesIO(entry["as_npy"]), allow_pickle=False)
    return entry


def from_nd(entry: Any) -> Any:
    if b"nd" in entry:
        return np.frombuffer(entry[b"data"], entry[b"type"]).reshape(entry[b"shape"])
    return entry


def from_any(entry: Any) -> Any:
    return from_nd(from_npy(entry))


class Client:
    """A REQ socket; reads arrays of every kind, and says an error as it came."""

    def __init__(
        self,
        port: int,
        encode: Callable[[Any], Any] = npy,
        token: Any = None,
        decode: Callable[[Any], Any] = from_any,
    ) -> None:
        self.socket = zmq.Context.instance().socket(zmq.REQ)
        self.socket.linger = 0
        self.socket.connect(f"tcp://127.0.0.1:{port}")
        self._encode, self._decode, self._token = encode, decode, token

    def send(self, endpoint: str | None, data: Any = None) -> None:
        request: dict[str, Any] = {"endpoint": endpoint} if endpoint else {}
        request |= {"data": data} if data is not None else {}
        request |= {"api_token": self._token} if self._token is not None else {}
        self.socket.send(msgpack.packb(request, default=self._encode))

    def receive(self) -> Any:
        assert self.socket.poll(PATIENCE_S * 1000), "no answer"
        return msgpack.unpackb(self.socket.recv(), object_hook=self._decode)

    def call(self, endpoint: str | None, data: Any = None) -> Any:
        self.send(endpoint, data)
        return self.receive()

    def close(self) -> None:
        self.socket.close()


class PolicyClient:
    """What a program of one dialect does. Its calls raise what was refused."""

    def __init__(self, port: int, dialect: str) -> None:
        encode, decode = (nd, from_nd) if dialect == "n1.7" else (npy, from_npy)
        self._client = Client(port, encode, decode=decode)
        self._dialect = dialect

    def get_action(self, observation: Mapping[str, Any]) -> dict[str, Any]:
        if self._dialect == "n1.5":
            return self._actions(self._call("get_action", dict(observation)))
        actions, info = self._call("get_action", {"observation": observation, "options": None})
        assert isinstance(info, dict)
        return self._actions(actions)

    def get_modality_config(self) -> dict[str, dict[str, Any]]:
        marker = "__ModalityConfig__" if self._dialect == "n1.7" else "__ModalityConfig_class__"
        told = {}
        for kind, config in self._call("get_modality_config").items():
            assert config[marker] is True
            told[kind] = json.loads(config["as_json"]) if self._dialect == "n1.5" else config["as_json"]
            assert set(told[kind]) == {"delta_indices", "modality_keys"}
        return told

    def close(self) -> None:
        self._client.close()

    def _call(self, endpoint: str, data: Any = None) -> Any:
        answer = self._client.call(endpoint, data)
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(f"Server error: {answer['error']}")
        return answer

    @staticmethod
    def _actions(actions: Any) -> dict[str, Any]:
        assert isinstance(actions, dict) and all(isinstance(one, np.ndarray) for one in actions.values())
        return actions


def flat(batch: int = 0, first: float = 0.0, frames: int = 2) -> dict[str, Any]:
    """As N1.5 sends it; `batch`: as behind N1.6's wrapper for simulators. Joint 0 of robot n is `first` + n."""
    size = (batch,) if batch else ()
    arm = np.zeros((*size, 1, 7), np.float32)
    arm[..., 0] = (first + np.arange(max(1, batch)))[:, None] if batch else first
    return {
        "video.ego": np.zeros((*size, frames, 8, 8, 3), np.uint8),
        "state.arm": arm,
        "state.hand": np.full((*size, 1, 1), 0.25, np.float32),
        "annotation.task": ["pick"] * max(1, batch),
    }


def nested(batch: int, first: float = 0.0, frames: int = 2) -> dict[str, Any]:
    told = flat(batch, first, frames)
    return {
        "video": {"ego": told["video.ego"]},
        "state": {"arm": told["state.arm"], "hand": told["state.hand"]},
        "language": {"annotation.task": [["pick"]] * batch},
    }
