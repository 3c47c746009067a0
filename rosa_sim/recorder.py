"""Records every topic of one robot to an MCAP file that Foxglove and `ros2 bag` open, for machines without rosbag2.

Messages are taken as they come over the wire (CDR bytes) and written with the time of their arrival; a schema is the
text of the message's installed .msg file with those of the messages that it contains. New topics are found meanwhile.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from mcap.writer import Writer
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from rosa_client.nodes.shell import declare, run_node

PARAMETERS = {
    "path": ("", "the MCAP file to write"),
    "exclude": (".*/image_raw$", "topics not to record: pictures are recorded compressed"),
}
EVERYBODY = ("/diagnostics", "/rosout")  # topics that are not in a robot's namespace
LOOK_EVERY_S = 0.5
SEPARATOR = "\n" + "=" * 80 + "\nMSG: {}\n"
BUILT_IN = re.compile(r"^(bool|byte|char|float(32|64)|u?int(8|16|32|64)|w?string)$")


class RecorderError(Exception):
    """Why nothing can be recorded."""


class Recorder(Node):
    """One file from start to `close`. A message that comes before its topic was found is not in it."""

    def __init__(self) -> None:
        super().__init__("recorder_node")
        declare(self, PARAMETERS)
        self._path = Path(self.get_parameter("path").value)
        self._exclude = re.compile(self.get_parameter("exclude").value)
        if not self._path.name:
            raise RecorderError("parameter path: expected the MCAP file to write, got nothing")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("wb")
        self._writer = Writer(self._file)
        self._writer.start(profile="ros2", library="rosa")
        self._schemas: dict[str, int] = {}
        self._topics: dict[str, Any] = {}
        self._count = 0
        self.create_timer(LOOK_EVERY_S, self._look)
        self.get_logger().info(f"recording {self.get_namespace()} to {self._path}")

    def close(self) -> None:
        """Finish the file: without its summary it would have to be repaired before it opens."""
        self._writer.finish()
        self._file.close()
        size_mb = self._path.stat().st_size / 1e6
        text = f"{self._count} messages of {len(self._topics)} topics, {size_mb:.1f} MB in {self._path}"
        print(f"recorder_node: {text}", flush=True)

    def _look(self) -> None:
        inside = self.get_namespace().rstrip("/") + "/"
        for topic, types in self.get_topic_names_and_types():
            wanted = (topic.startswith(inside) or topic in EVERYBODY) and "/_" not in topic
            if wanted and topic not in self._topics and not self._exclude.fullmatch(topic):
                self._add(topic, types)

    def _add(self, topic: str, types: list[str]) -> None:
        name = types[0]
        publishers = self.get_publishers_info_by_topic(topic)
        if not publishers:
            return
        try:
            kind, schema = message_class(name), self._schema(name)
        except (ImportError, AttributeError, FileNotFoundError) as error:
            self.get_logger().warning(f"{topic} is not recorded: {error}")
            self._topics[topic] = None
            return
        offered = {"offered_qos_profiles": ""}
        channel = self._writer.register_channel(topic, "cdr", schema, metadata=offered)

        def keep(data: bytes) -> None:
            now_ns = time.time_ns()
            self._writer.add_message(channel, now_ns, data, now_ns)
            self._count += 1

        # Ask for as much as every publisher gives: more would connect to none of them.
        profiles = [info.qos_profile for info in publishers]
        qos = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
        if all(profile.reliability == ReliabilityPolicy.RELIABLE for profile in profiles):
            qos.reliability = ReliabilityPolicy.RELIABLE
        if all(profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for profile in profiles):
            qos.durability = DurabilityPolicy.TRANSIENT_LOCAL
        self._topics[topic] = self.create_subscription(kind, topic, keep, qos, raw=True)

    def _schema(self, name: str) -> int:
        if name not in self._schemas:
            text = schema_text(name).encode()
            self._schemas[name] = self._writer.register_schema(name, "ros2msg", text)
        return self._schemas[name]


def message_class(name: str) -> Any:
    """The class of "package/msg/Name"."""
    package, folder, kind = name.split("/")
    return getattr(importlib.import_module(f"{package}.{folder}"), kind)


def schema_text(name: str) -> str:
    """The definition of "package/msg/Name" followed by those of all messages in it, as ros2msg schemas are written."""
    text, seen, waiting = definition(name), {name}, contained(name)
    while waiting:
        inner = waiting.pop(0)
        if inner not in seen:
            seen.add(inner)
            package, _, kind = inner.split("/")
            text += SEPARATOR.format(f"{package}/{kind}") + definition(inner)
            waiting += contained(inner)
    return text


@cache
def definition(name: str) -> str:
    """The installed .msg file of "package/msg/Name"."""
    package, folder, kind = name.split("/")
    # A sourced ROS 2 says where it is; the wheels are where Python is.
    prefixes = [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]
    for prefix in filter(None, prefixes):
        path = Path(prefix, "share", package, folder, f"{kind}.msg")
        if path.is_file():
            return path.read_text()
    raise FileNotFoundError(f"no {package}/{folder}/{kind}.msg below {', '.join(filter(None, prefixes))}")


def contained(name: str) -> list[str]:
    """The messages that fields of "package/msg/Name" are made of, as "package/msg/Name"."""
    package = name.split("/")[0]
    found = []
    for line in definition(name).splitlines():
        words = line.split("#")[0].split()
        if len(words) < 2 or "=" in line.split("#")[0].split('"')[0]:
            continue
        kind = re.sub(r"(<=\d+)|(\[.*\])", "", words[0])
        if BUILT_IN.match(kind):
            continue
        parts = kind.split("/")
        found.append(f"{parts[0] if len(parts) > 1 else package}/msg/{parts[-1]}")
    return found


def main() -> None:
    run_node(Recorder, (RecorderError, OSError))


if __name__ == "__main__":
    main()
