"""Stand-ins for learned models: they answer from the state of the simulated cell, which no model sees.

A story of the whole system then fails for what the system did, never for what a policy saw. The learned policy is
judged by `make evaluate` and `make demo`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np
import rclpy
from numpy.typing import NDArray
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from rosa_interfaces.msg import WorldState

from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput
from rosa_server.models.panda.kinematics import inverse_path
from rosa_sim.cell.expert import STEP_S, expert_chunk
from rosa_sim.cell.layout.hardware import PICK_PLACE
from rosa_sim.cell.world import World

# As `rosa_server.models.panda.common`, which imports torch: seconds of a core for each worker.
INPUT_SPEC = InputSpec({"front": (96, 96), "wrist": (96, 96)}, {"joint_position": 7, "gripper_width": 1})
LONGEST_S = 60.0  # until the arm node tells the state of the cell


class Oracle:
    """A backend that hears the state of one robot's cell. What it answers is its subclass's."""

    input_spec = INPUT_SPEC
    max_batch = 4
    memory_mb = 0.0
    scene = PICK_PLACE

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._newest: WorldState | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def load(self) -> None:
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)  # the worker has its own
        self.world = World(scene=self.scene)  # as it stands
        self._node = rclpy.create_node("oracle", namespace=self._namespace)
        self._node.create_subscription(WorldState, "world_state", self._on_world, qos_profile_sensor_data)
        executor = SingleThreadedExecutor()
        executor.add_node(self._node)
        until_s = time.monotonic() + LONGEST_S
        while self._newest is None and time.monotonic() < until_s:
            executor.spin_once(timeout_sec=0.1)
        self._thread = threading.Thread(target=self._listen, args=(executor,), daemon=True)
        self._thread.start()

    def _listen(self, executor: SingleThreadedExecutor) -> None:
        while not self._closing.is_set():
            executor.spin_once(timeout_sec=0.1)
        executor.shutdown()
        self._node.destroy_node()

    def warm_up(self) -> None:
        pass

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        rclpy.try_shutdown()

    def _on_world(self, message: WorldState) -> None:
        self._newest = message

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        newest = self._newest
        if newest is None:
            raise ValueError("no state of the cell has come")
        self.world.set_state(int(newest.seed), np.array(newest.qpos))
        return [self.answer(one) for one in batch]

    def answer(self, one: ModelInput) -> ModelOutput:
        """What the model would say if it knew the cell."""
        raise NotImplementedError


def along(path: NDArray[np.floating], world: World) -> ModelOutput:
    """The actions that lead the tool along `(n, 4)` positions m and gripper widths m."""
    joints = inverse_path(path[None, :, :3], world.joint_position[None])[0]
    actions = np.concatenate([joints, path[:, 3:]], axis=1).astype(np.float32)
    return ModelOutput(arrays={"actions": actions, "step_s": np.array([STEP_S], np.float32)})


class PickPlaceOracle(Oracle):
    """The action model and the monitor of `configs/pick_place.yaml`: the scripted expert, and how the task stands."""

    def answer(self, one: ModelInput) -> ModelOutput:
        if one.component == "monitor":
            return ModelOutput(verdict=self.world.outcome())
        return along(expert_chunk(self.world), self.world)
