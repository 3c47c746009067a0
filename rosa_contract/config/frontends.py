"""The section `frontends` of a factory file: other projects' protocols in front of the gateway (docs/frontends.md).

Each entry names the task of its clients' robots, and maps what clients send to that task's cameras and states, and its
actions to what clients take. A preset fills in the mappings that are not given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rosa_contract.config.adapter import EXACT, FITS, PAD
from rosa_contract.config.conventions import AS_IS, FINGER_PAIR, GRIPPERS, UNITS
from rosa_contract.endpoint import endpoint_problem, is_loopback_host
from rosa_contract.setting import setting
from rosa_contract.wording import name_problem, nearest, shown

OPENPI, GR00T = "openpi", "gr00t"
PORTS = {OPENPI: 8000, GR00T: 5555}  # where their own servers listen
HANDS = (AS_IS, *(name for name in GRIPPERS if name != FINGER_PAIR))
AUTO = "auto"
DIALECTS = (AUTO, "n1.5", "n1.6", "n1.7")


@dataclass(frozen=True)
class ImageSource:
    """Where a camera's frames come from."""

    key: str = setting("the client's key for the image")
    height: int = setting("image height that the task's models take, px", at_least=1, at_most=4096)
    width: int = setting("image width that the task's models take, px", at_least=1, at_most=4096)
    fit: str = setting(
        "what happens to an image of another size: exact: refused; stretch: scale to size, ignoring the aspect"
        " ratio; pad: scale to fit and pad with black; crop: scale to fill and crop the centre",
        EXACT,
        choices=FITS,
    )
    frame: int = setting(
        "gr00t only: which frame of an image history to use, in steps relative to the current one (0 or negative)",
        0,
        at_least=-1000,
        at_most=0,
    )


@dataclass(frozen=True)
class StatePart:
    """Values of a robot's state, from one of the client's arrays."""

    key: str = setting("the client's key for the array")
    columns: tuple[int, ...] = setting(
        "indices (0-based) of the values to take, in the robot's order; default: the whole array, which must have"
        " `count` values",
        tuple,
    )
    count: int = setting(
        "length of the client's array, if `columns` is not given", 1, at_least=1, at_most=1024
    )
    unit: str = setting("the client's unit; default: rad or m, like the robot", AS_IS, choices=tuple(UNITS))
    gripper: str = setting(
        "the client's gripper convention (docs/bring_your_own.md), for a gripper value", AS_IS, choices=HANDS
    )
    open_m: float = setting(
        "with `gripper`: the robot's gripper width when open, m", 0.0, at_least=0, at_most=1
    )

    @property
    def taken(self) -> tuple[int, ...]:
        """The columns of the client's array."""
        return self.columns or tuple(range(self.count))


@dataclass(frozen=True)
class ActionPart:
    """Values of a client's action, from columns of the model's actions."""

    columns: tuple[int, ...] = setting("columns (0-based) of the model's actions, in the client's order")
    unit: str = setting("the client's unit; default: rad or m, like the model", AS_IS, choices=tuple(UNITS))
    gripper: str = setting(
        "the client's gripper convention (docs/bring_your_own.md), for a gripper width", AS_IS, choices=HANDS
    )
    open_m: float = setting(
        "with `gripper`: the robot's gripper width when open, m", 0.0, at_least=0, at_most=1
    )
    relative_to: str = setting(
        "state of the robot; if given, the client gets deltas: the first row relative to this state, each other"
        " row relative to the one before",
        "",
    )
    scale: float = setting("factor on the values, after all other conversions", 1.0)


@dataclass(frozen=True)
class Frontend:
    """One protocol on one port."""

    protocol: str = setting("the clients' protocol", choices=(OPENPI, GR00T))
    task: str = setting("task that the clients' robots run")
    component: str = setting("component of the task that answers", "system1")
    bind: str = setting(
        "HOST:PORT to listen on; beyond loopback needs gateway.curve_keys, and TLS or --insecure; default:"
        " loopback, on the protocol's usual port (openpi 8000, gr00t 5555)",
        "",
    )
    slo_ms: float | None = setting(
        "deadline of a call; default: the component's", None, above=0, at_most=600_000
    )
    preset: str = setting(
        "droid or libero: shipped values for `images`, `state` and `actions`; each is used if the key is not"
        " given",
        "",
    )
    images: Mapping[str, ImageSource] = setting("camera of the task -> the client's image", dict)
    state: Mapping[str, tuple[StatePart, ...]] = setting(
        "state array of the task -> the client's arrays", dict
    )
    actions: Mapping[str, tuple[ActionPart, ...]] = setting(
        "the client's action array -> columns of the model's actions", dict
    )
    prompt_key: str = setting("the client's key for the instruction; empty: clients send none", "prompt")
    prompt: str = setting("instruction for clients that send none", "")
    ignore: tuple[str, ...] = setting(
        "keys in clients' observations to ignore; any other unmapped key is refused", tuple
    )
    metadata: Mapping[str, Any] = setting(
        "additional metadata for openpi clients, sent when they connect", dict
    )
    dialect: str = setting(
        "gr00t only: dialect of the `get_modality_config` answer to a client that has not shown its own yet;"
        " auto: N1.6",
        AUTO,
        choices=DIALECTS,
    )
    horizon: int = setting(
        "gr00t only: number of action rows that `get_modality_config` reports",
        16,
        at_least=1,
        at_most=1024,
    )
    max_clients: int = setting("maximum number of connections", 64, at_least=1, at_most=1024)
    max_batch: int = setting(
        "gr00t only: maximum number of observations per request", 16, at_least=1, at_most=256
    )
    max_message_mb: float = setting("maximum size of a client's message", 8.0, above=0, at_most=256)
    max_rate_hz: float = setting(
        "maximum call rate of a client; faster calls are delayed", 100.0, above=0, at_most=10_000
    )
    tls_certificate: str = setting("openpi only: PEM file with the certificate for wss://", "")
    tls_key: str = setting("openpi only: PEM file with its private key", "")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        host, _, port = (self.bind or f"127.0.0.1:{PORTS[self.protocol]}").rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def on_loopback(self) -> bool:
        """Whether only processes on this machine can connect."""
        return is_loopback_host(self.address[0])

    def filled(self) -> Frontend:
        """The same, with mappings that are not given taken from the preset."""
        images, state, actions = PRESETS.get(self.preset, ({}, {}, {}))
        return replace(
            self,
            images=self.images or images,
            state=self.state or state,
            actions=self.actions or actions,
        )


_HAND, _HAND_M = "closed_fraction", 0.085  # Robotiq 2F-85
Preset = tuple[
    Mapping[str, ImageSource], Mapping[str, tuple[StatePart, ...]], Mapping[str, tuple[ActionPart, ...]]
]
# What openpi's own examples send (examples/droid/main.py, examples/libero/main.py).
PRESETS: Mapping[str, Preset] = {
    "droid": (
        {
            name: ImageSource(f"observation/{name}", 224, 224, PAD)
            for name in ("exterior_image_1_left", "wrist_image_left")
        },
        {
            "joint_position": (StatePart("observation/joint_position", (), 7),),
            "gripper_width": (StatePart("observation/gripper_position", gripper=_HAND, open_m=_HAND_M),),
        },
        # A DROID robot takes joint velocities: 1 is 0.2 rad per step.
        {
            "actions": (
                ActionPart(tuple(range(7)), relative_to="joint_position", scale=5.0),
                ActionPart((7,), gripper=_HAND, open_m=_HAND_M),
            )
        },
    ),
    "libero": (
        {name: ImageSource(f"observation/{name}", 224, 224, PAD) for name in ("image", "wrist_image")},
        {"state": (StatePart("observation/state", (), 8),)},
        {"actions": (ActionPart(tuple(range(7))),)},
    ),
}


Problem = tuple[str, str, str]  # path within the entry, words, cause


def frontend_problems(frontend: Frontend) -> Iterator[Problem]:
    """Values that contradict one another, and names that do not exist."""
    bind = frontend.bind or "127.0.0.1:1"
    if problem := endpoint_problem(f"tcp://{bind}", binds=True, ipv6=True) or (
        "" if "*" not in bind else "expected a port"
    ):
        yield "bind", f"expected HOST:PORT, got {shown(frontend.bind)}: {problem}", "out_of_range"
    if frontend.preset and frontend.preset not in PRESETS:
        words = f"must be one of {', '.join(PRESETS)}, got {shown(frontend.preset)}{nearest(frontend.preset, PRESETS)}"
        yield "preset", words, "unknown_name"
        return
    whole = frontend.filled()
    if not whole.actions:
        yield "actions", "is missing; name the client's array, such as `actions`, or a preset", "missing"
    for camera, source in whole.images.items():
        if problem := name_problem(camera):
            yield f"images.{camera}", problem, "invalid"
        if source.frame and frontend.protocol != GR00T:
            yield f"images.{camera}.frame", "an openpi client sends no history", "conflict"
    for name, parts in whole.state.items():
        if not parts:
            yield f"state.{name}", "expected at least one part", "missing"
        for index, part in enumerate(parts):
            yield from _part_problems(f"state.{name}[{index}]", part)
    for name, actions in whole.actions.items():
        if not actions:
            yield f"actions.{name}", "expected at least one part", "missing"
        for index, action in enumerate(actions):
            where = f"actions.{name}[{index}]"
            yield from _part_problems(where, action)
            if not action.columns:
                yield f"{where}.columns", "expected at least one column", "missing"
            if action.relative_to:
                known = {key: sum(len(part.taken) for part in state) for key, state in whole.state.items()}
                if known.get(action.relative_to) != len(action.columns):
                    words = (
                        f"expected a state of {len(action.columns)} values, got {shown(action.relative_to)}"
                    )
                    yield f"{where}.relative_to", words, "conflict"
    if bool(frontend.tls_certificate) != bool(frontend.tls_key):
        yield "tls_key", "expected both tls_certificate and tls_key, or neither", "conflict"
    if frontend.tls_certificate and frontend.protocol != OPENPI:
        yield "tls_certificate", "GR00T's protocol has no TLS", "conflict"


def _part_problems(where: str, part: StatePart | ActionPart) -> Iterator[Problem]:
    if any(not 0 <= column < 1024 for column in part.columns):
        yield f"{where}.columns", f"expected numbers from 0 to 1023, got {list(part.columns)}", "out_of_range"
    if part.gripper and not part.open_m:
        yield (
            f"{where}.open_m",
            "is missing; with `gripper` expected the robot's gripper width when open, in m",
            "missing",
        )
    if part.gripper and part.unit:
        yield f"{where}.unit", "expected none with `gripper`: a gripper convention has no unit", "conflict"
