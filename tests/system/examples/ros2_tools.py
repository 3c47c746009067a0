"""`ros2 service call`, `topic pub`, `topic echo`, `param set`, `action list` and `action send_goal`: no wheel has them.

Names, types and fields are compared with those of the nodes that run, as the real ones do or more strictly: what is not
there within some seconds ends with status 1.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import rclpy
import yaml
from rclpy.action import ActionClient, get_action_names_and_types
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

FOUND_WITHIN_S = 20.0
ANSWER_WITHIN_S = 90.0


def type_of(name: str) -> Any:
    """The class of `package/kind/Name`."""
    package, kind, last = name.split("/")
    return getattr(importlib.import_module(f"{package}.{kind}"), last)


def filled(message: Any, text: str) -> Any:
    """`message` with the values of a YAML mapping. Exits where it has no such field."""
    _fill(message, yaml.safe_load(text) or {})
    return message


def _fill(message: Any, values: dict[str, Any]) -> None:
    known = message.get_fields_and_field_types()
    for name, value in values.items():
        if name not in known:
            raise SystemExit(f"{type(message).__name__} has no field {name!r}; there are {', '.join(known)}")
        if isinstance(value, dict):
            _fill(getattr(message, name), value)
        else:
            setattr(message, name, float(value) if isinstance(getattr(message, name), float) else value)


def shown(message: Any) -> Any:
    """A message as plain values."""
    if hasattr(message, "get_fields_and_field_types"):
        return {name: shown(getattr(message, name)) for name in message.get_fields_and_field_types()}
    if isinstance(message, (str, bool, int, float)):
        return message
    return [shown(one) for one in message]


def text_of(message: Any) -> str:
    return str(yaml.safe_dump(shown(message), sort_keys=False, allow_unicode=True))


def found(node: Node, what: str, look: Callable[[], Any]) -> Any:
    """What `look` finds. Exits when it finds nothing for some seconds."""
    until_s = time.monotonic() + FOUND_WITHIN_S
    while time.monotonic() < until_s:
        if seen := look():
            return seen
        rclpy.spin_once(node, timeout_sec=0.1)
    raise SystemExit(f"nobody has {what}")


def types_of(node: Node, what: str, name: str, given: str, listed: Callable[[], Any]) -> None:
    """Exits where `name` is not among `listed`, or with another type."""
    types = found(node, f"the {what} {name}", lambda: dict(listed()).get(name))
    if given not in types:
        raise SystemExit(f"the {what} {name} is of type {', '.join(types)}, not {given}")


def answer(node: Node, future: Any) -> Any:
    rclpy.spin_until_future_complete(node, future, timeout_sec=ANSWER_WITHIN_S)
    if not future.done():
        raise SystemExit(f"no answer within {ANSWER_WITHIN_S:g} s")
    return future.result()


def service_call(node: Node, name: str, kind: str, text: str = "{}") -> None:
    types_of(node, "service", name, kind, node.get_service_names_and_types)
    client = node.create_client(type_of(kind), name)
    found(node, f"the service {name}", client.service_is_ready)
    print(f"response:\n{text_of(answer(node, client.call_async(filled(type_of(kind).Request(), text))))}")


def topic_pub(node: Node, once: str, name: str, kind: str, text: str) -> None:
    assert once == "--once", "the stand-in publishes once"
    types_of(node, "topic", name, kind, node.get_topic_names_and_types)
    publisher = node.create_publisher(type_of(kind), name, 10)
    found(node, f"a subscription of {name}", publisher.get_subscription_count)
    publisher.publish(filled(type_of(kind)(), text))
    rclpy.spin_once(node, timeout_sec=0.5)
    print(f"publishing #1: {text}")


def topic_echo(node: Node, *words: str) -> None:
    [name] = [word for word in words if word != "--once"]
    [offered, *_] = found(node, f"the topic {name}", lambda: node.get_publishers_info_by_topic(name))
    latched = offered.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    durability = DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE
    qos = QoSProfile(depth=10, durability=durability)
    came: list[Any] = []
    node.create_subscription(type_of(offered.topic_type), name, came.append, qos)
    while not (came and "--once" in words):
        rclpy.spin_once(node, timeout_sec=1.0)
        while came and "--once" not in words:
            print(f"{text_of(came.pop(0))}---", flush=True)
    print(f"{text_of(came[0])}---")


def param_set(node: Node, of: str, name: str, value: str) -> None:
    from rcl_interfaces.srv import SetParameters
    from rclpy.parameter import Parameter

    client = node.create_client(SetParameters, f"{of}/set_parameters")
    found(node, f"the node {of}", client.service_is_ready)
    given = Parameter(name, value=yaml.safe_load(value)).to_parameter_msg()
    [result] = answer(node, client.call_async(SetParameters.Request(parameters=[given]))).results
    if not result.successful:
        raise SystemExit(f"Setting parameter failed: {result.reason}")
    print("Set parameter successful")


def action_list(node: Node, option: str = "") -> None:
    for name, types in found(node, "an action", lambda: get_action_names_and_types(node)):
        print(f"{name} [{', '.join(types)}]" if option == "-t" else name)


def action_send_goal(node: Node, *words: str) -> None:
    name, kind, text = (word for word in words if word != "--feedback")
    types_of(node, "action", name, kind, lambda: get_action_names_and_types(node))
    client = ActionClient(node, type_of(kind), name)
    found(node, f"the action {name}", client.server_is_ready)
    tell = (lambda one: print(f"feedback:\n{text_of(one.feedback)}")) if "--feedback" in words else None
    handle = answer(node, client.send_goal_async(filled(type_of(kind).Goal(), text), feedback_callback=tell))
    if not handle.accepted:
        raise SystemExit("Goal was rejected.")
    print("Goal accepted")
    print(f"result:\n{text_of(answer(node, handle.get_result_async()).result)}")
    client.destroy()


def run(words: list[str]) -> None:
    """`words` without `ros2`. Exits with 1 and says why where it cannot be done."""
    known = {
        "service call": service_call,
        "topic pub": topic_pub,
        "topic echo": topic_echo,
        "param set": param_set,
        "action list": action_list,
        "action send_goal": action_send_goal,
    }
    rclpy.init()
    node = rclpy.create_node("ros2_stand_in")
    try:
        known[" ".join(words[:2])](node, *words[2:])
    except KeyboardInterrupt:
        pass  # an echo, or a goal that nobody waits for any more
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
