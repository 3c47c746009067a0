"""What of a recorded message a timeline shows: numbers, words and pictures, each below a path. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rosa_server.bags.cdr import CdrError, decode
from rosa_server.bags.records import ROS, Record

INFO, WARN, ERROR = "INFO", "WARN", "ERROR"
ARM_STATES = ("holding", "playing", "moving", "returning")  # ArmStatus.state
ORDERS = ("hold", "play", "move to")  # ArmCommand.kind; the fourth is a sign of life
# What a call that did not end in time means.
LEVELS = {"missed": ERROR, "cancelled": WARN}


@dataclass(frozen=True)
class Figure:
    """A number at this time."""

    path: str
    value: float


@dataclass(frozen=True)
class ShownWords:
    """Something that was said or decided."""

    path: str
    text: str
    level: str = INFO


@dataclass(frozen=True)
class Still:
    """A picture, as it was recorded: a JPEG or a PNG."""

    path: str
    data: bytes
    media_type: str


Shown = Figure | ShownWords | Still
Message = Mapping[str, Any]


class Teller:
    """Turns messages into what is shown. States are told when they change, so it remembers the last of each topic."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}

    def shown(self, record: Record) -> Iterator[Shown]:
        """Nothing for a message that no timeline needs. Raises `CdrError`."""
        track = record.track
        teller = TELLERS.get(track.kind) if track.definition_encoding == ROS else None
        if teller is not None:
            message = decode(track.kind, track.definition.decode(), record.data)
            try:
                yield from teller(self, track.topic.strip("/"), message)
            except KeyError as error:
                raise CdrError(
                    f"{track.kind}: recorded by another version, without the field {error}"
                ) from None

    def _changed(self, path: str, state: str, level: str = INFO) -> Iterator[Shown]:
        if self._states.get(path) != state:
            self._states[path] = state
            yield ShownWords(path, state, level)

    def _compressed(self, path: str, message: Message) -> Iterator[Shown]:
        kind = "png" if "png" in message["format"] else "jpeg"
        yield Still(path.removesuffix("/image_raw/compressed"), bytes(message["data"]), f"image/{kind}")

    def _joints(self, path: str, message: Message) -> Iterator[Shown]:
        for name, position in zip(message["name"], message["position"], strict=False):
            yield Figure(f"{path}/{name}", float(position))

    def _call(self, path: str, message: Message) -> Iterator[Shown]:
        component, ending = message["component"], message["ending"]
        yield Figure(f"{path}/{component}/duration_ms", float(message["duration_ms"]))
        yield Figure(f"{path}/{component}/slo_ms", float(message["slo_ms"]))
        if ending in LEVELS:
            words = f"{component}: {ending} after {message['duration_ms']:.0f} of {message['slo_ms']:.0f} ms"
            yield ShownWords(f"{path}/{component}/{ending}", words, LEVELS[ending])

    def _robot(self, path: str, message: Message) -> Iterator[Shown]:
        yield from self._changed(f"{path}/state", message["state"])
        if not message["server_connected"]:
            yield from self._changed(f"{path}/server", "not connected", ERROR)
        else:
            yield from self._changed(f"{path}/server", "connected")
        for one in message["components"]:
            yield Figure(f"{path}/{one['component']}/missed", float(one["missed"]))

    def _arm(self, path: str, message: Message) -> Iterator[Shown]:
        state = message["state"]
        yield from self._changed(
            f"{path}/state", ARM_STATES[state] if state < len(ARM_STATES) else str(state)
        )
        yield from self._changed(f"{path}/fault", message["fault"] or "no fault", _level(message["fault"]))
        stopped = bool(message["emergency_stop"])
        words = "emergency stop" if stopped else "no emergency stop"
        yield from self._changed(f"{path}/emergency_stop", words, _level(stopped))

    def _order(self, path: str, message: Message) -> Iterator[Shown]:
        if message["kind"] < len(ORDERS):
            yield ShownWords(path, f"{ORDERS[message['kind']]}: {message['reason']}")

    def _decision(self, path: str, message: Message) -> Iterator[Shown]:
        yield ShownWords(path, f"{message['action']}: {message['cause']}: {message['reason']}")

    def _alert(self, path: str, message: Message) -> Iterator[Shown]:
        waits = bool(message["active"])
        words = (
            f"waits for a person: {message['cause']}: {message['reason']}"
            if waits
            else "nobody has to decide"
        )
        yield from self._changed(path, words, _level(waits))

    def _audit(self, path: str, message: Message) -> Iterator[Shown]:
        result = "" if message["accepted"] else f" - not taken: {message['reason']}"
        words = f"{message['decided_by']}: {message['choice']}: {message['why']}{result}"
        yield ShownWords(path, words, INFO if message["accepted"] else WARN)

    def _text(self, path: str, message: Message) -> Iterator[Shown]:
        yield from self._changed(path, message["data"])

    def _prompt(self, path: str, message: Message) -> Iterator[Shown]:
        yield from self._changed(f"{path}/{message['key']}", message["value"])


def _level(bad: object) -> str:
    return ERROR if bad else INFO


TELLERS: Mapping[str, Callable[[Teller, str, Message], Iterator[Shown]]] = {
    "sensor_msgs/msg/CompressedImage": Teller._compressed,
    "sensor_msgs/msg/JointState": Teller._joints,
    "rosa_interfaces/msg/Call": Teller._call,
    "rosa_interfaces/msg/RobotStatus": Teller._robot,
    "rosa_interfaces/msg/ArmStatus": Teller._arm,
    "rosa_interfaces/msg/ArmCommand": Teller._order,
    "rosa_interfaces/msg/Decision": Teller._decision,
    "rosa_interfaces/msg/OperatorAlert": Teller._alert,
    "rosa_interfaces/msg/OperatorAudit": Teller._audit,
    "std_msgs/msg/String": Teller._text,
    "diagnostic_msgs/msg/KeyValue": Teller._prompt,
}


def finite(shown: Iterator[Shown]) -> Iterator[Shown]:
    """Without numbers that no plot can draw."""
    return (one for one in shown if not isinstance(one, Figure) or math.isfinite(one.value))
