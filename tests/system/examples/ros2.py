"""`ros2 launch PACKAGE FILE name:=value ...`, as far as ROSA's launch files need it: no wheel has launch.

    python -m tests.system.examples.ros2 launch rosa_client pick_place.launch.py config:=lab.yaml

Other words than `launch` and `run` are for `ros2_tools.py`.

The launch file is the real one, with stand-ins for the classes of launch and launch_ros; what it describes is started
as processes, with their output here, and its handlers are told what they write and how they end. SIGINT and SIGTERM
end all of them.
"""

from __future__ import annotations

import importlib.util
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rosa_client.bringup.bringup import node_command
from rosa_client.bringup.graph import PACKAGE, NodeSpec
from rosa_client.executables import module_of, program
from tests.unit.launch import stand_in

ROOT = Path(__file__).parents[3]
ENDS_WITHIN_S = 15.0
LOOK_S = 0.2


def name_of(action: Any) -> str:
    return type(action).__name__


def command_of(action: Any) -> list[str]:
    """What is run for a `Node` or an `ExecuteProcess`."""
    given = action.kwargs
    if name_of(action) == "ExecuteProcess":
        return [str(word) for word in given["cmd"]]
    values = {
        name: value.args[0] if isinstance(value, stand_in.ParameterValue) else value
        for part in given["parameters"]
        for name, value in part.items()
    }
    spec = NodeSpec(
        given["executable"],
        given["name"],
        given["namespace"],
        values,
        remap=dict(given["remappings"]),
        package=given["package"],
    )
    return [*given.get("prefix", "").split(), *node_command(spec)]


class Launch:
    """What runs, and what is to be done about it in this thread."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._due: queue.SimpleQueue[tuple[float, Any]] = queue.SimpleQueue()  # actions, and when
        self._handlers: list[Any] = []
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def carry_out(self, actions: Iterable[Any]) -> None:
        """In the order of the description."""
        for action in actions:
            kind = name_of(action)
            if kind == "DeclareLaunchArgument":
                self._context.launch_configurations.setdefault(action.args[0], action.kwargs["default_value"])
            elif kind == "SetEnvironmentVariable":
                os.environ[action.args[0]] = action.args[1]
            elif kind == "OpaqueFunction":
                self.carry_out(action.kwargs["function"](self._context) or ())
            elif kind == "RegisterEventHandler":
                self._handlers.append(action.args[0])
            elif kind == "TimerAction":
                self._due.put((time.monotonic() + action.kwargs["period"], action))
            elif kind in ("Node", "ExecuteProcess"):
                self._start(action)
            else:
                raise LookupError(f"{kind}: the stand-in for launch does not carry it out; add it here")

    def spin_once(self) -> None:
        """Carry out what is due."""
        try:
            at_s, action = self._due.get(timeout=LOOK_S)
        except queue.Empty:
            return
        if time.monotonic() < at_s:
            self._due.put((at_s, action))
            time.sleep(LOOK_S / 10)
            return
        self.carry_out(action.kwargs["actions"] if name_of(action) == "TimerAction" else [action])

    def stop(self) -> None:
        """End every process."""
        self._context.is_shutdown = True
        for process in self.running.values():
            process.send_signal(signal.SIGINT)
        until_s = time.monotonic() + ENDS_WITHIN_S
        for process in self.running.values():
            try:
                process.wait(max(0.1, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()

    def _start(self, action: Any) -> None:
        name = "/".join(
            part.strip("/") for part in (action.kwargs.get("namespace", ""), action.kwargs["name"]) if part
        )
        process = subprocess.Popen(
            command_of(action), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        self.running[name] = process
        threading.Thread(target=self._watch, args=(name, action, process), daemon=True).start()

    def _watch(self, name: str, action: Any, process: subprocess.Popen[bytes]) -> None:
        """In a thread of the process."""
        assert process.stdout is not None
        mine = [one for one in self._handlers if one.kwargs.get("target_action") is action]
        for line in process.stdout:
            print(f"[{name}] {line.decode(errors='replace').rstrip()}", flush=True)
            for handler in mine:
                if "on_stdout" in handler.kwargs:
                    handler.kwargs["on_stdout"](SimpleNamespace(text=line))
        event = SimpleNamespace(returncode=process.wait())
        print(f"[{name}] ended with {event.returncode}", flush=True)
        for handler in mine:
            if "on_exit" in handler.kwargs and (follows := handler.kwargs["on_exit"](event, self._context)):
                self._due.put((0.0, follows))


def description_of(package: str, file: str, prefix: Path) -> list[Any]:
    """What the launch file describes. `prefix`: where the package is as if it were installed."""
    index = prefix / "share" / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    (index / package).touch()
    (prefix / "share" / package).symlink_to(ROOT)
    os.environ["AMENT_PREFIX_PATH"] = os.pathsep.join(
        [str(prefix), *filter(None, [os.environ.get("AMENT_PREFIX_PATH")])]
    )
    stand_in.install(pytest.MonkeyPatch(), lambda text: print(text, flush=True), prefix)
    path = ROOT / "launch" / file
    spec = importlib.util.spec_from_file_location(path.name.replace(".", "_"), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    [actions] = module.generate_launch_description().args
    return list(actions)


def main() -> int:
    if sys.argv[1] == "run":
        _, package, executable, *words = sys.argv[1:]
        assert package == PACKAGE, f"expected {PACKAGE}, got {package}"
        command = program(module_of(executable))
        os.execv(command[0], [*command, *words])
    if sys.argv[1] != "launch":
        from tests.system.examples import ros2_tools

        ros2_tools.run(sys.argv[1:])
        return 0
    _, package, file, *words = sys.argv[1:]
    given = dict(word.split(":=", 1) for word in words)
    context = SimpleNamespace(launch_configurations=given, argv=words, is_shutdown=False)
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: asked.append(number))
    with tempfile.TemporaryDirectory() as prefix:
        launch = Launch(context)
        try:
            launch.carry_out(description_of(package, file, Path(prefix)))
            while not asked:
                launch.spin_once()
        finally:
            launch.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
