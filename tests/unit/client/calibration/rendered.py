"""The simulated cell with a ChArUco board in it, through a lens that bends: pictures of which the truth is known."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from rosa_client.calibration.board import BoardSpec
from rosa_client.calibration.lens import camera_matrix, distortion
from rosa_contract.config.cameras import Intrinsics
from rosa_contract.wire.images import Rgb
from rosa_sim.cell.gl import BACKEND  # before mujoco

import mujoco  # isort: skip

from rosa_sim.cell.scene import scene_xml

assert BACKEND
SIZE = (640, 480)
# A lens with a barrel: the picture's corners are moved by 20 px.
LENS = Intrinsics(545.0, 541.0, 327.0, 236.0, (-0.18, 0.05, 0.0008, -0.0006, 0.0))
RENDERED = (1280, 960)
FOVY_DEG = 62.0  # more than the lens sees
OPTICAL = np.diag([1.0, -1.0, -1.0, 1.0])  # OpenGL looks along -z with y up


@dataclass(frozen=True)
class Mount:
    """Where the board is: in the hand, or on the table; (4, 4) in that body's frame."""

    body: str  # panda_hand or world
    pose: np.ndarray


class Stage:
    """The arm, a camera and the board; `take` is what the camera sees."""

    def __init__(self, folder: Path, camera: str, board: BoardSpec, mount: Mount) -> None:
        texture = folder / "board.png"
        px_per_mm = 4.0
        cv2.imwrite(str(texture), np.asarray(board.picture(px_per_mm)))
        root = ET.fromstring(scene_xml())
        asset = root.find("asset")
        assert asset is not None
        ET.SubElement(asset, "texture", name="board", type="2d", file=str(texture))
        look = {"specular": "0", "shininess": "0", "emission": "0.25"}
        ET.SubElement(asset, "material", name="board", texture="board", texrepeat="1 1", **look)
        width, height = board.size_m
        # A plane faces along its z; the board's z goes into it. MuJoCo has planes in the world only, so it is carried.
        self._body = mount.body
        self._placed = mount.pose @ _move(width / 2, height / 2, 0.0) @ OPTICAL
        geom = ET.Element(
            "geom",
            name="board",
            type="plane",
            size=f"{width / 2} {height / 2} 0.01",
            material="board",
            # Not at its body's place: MuJoCo would keep it there for good.
            pos="0 0 1",
            quat="0.8 0 0.6 0",
            contype="0",
            conaffinity="0",
        )
        world = root.find("worldbody")
        assert world is not None
        world.append(geom)
        screen = root.find("visual/global")
        assert screen is not None
        screen.set("offwidth", str(RENDERED[0]))
        screen.set("offheight", str(RENDERED[1]))
        self._model = mujoco.MjModel.from_xml_string(ET.tostring(root, encoding="unicode"))
        self._data = mujoco.MjData(self._model)
        self._camera = camera
        self._model.camera(camera).fovy[0] = FOVY_DEG
        for name in ("block0", "cylinder", "sphere", "disc"):  # out of the way
            at = int(self._model.joint(self._model.body(name).jntadr[0]).qposadr[0])
            self._data.qpos[at : at + 3] = (2.0, 0.0, -0.6)
        self._renderer = mujoco.Renderer(self._model, height=RENDERED[1], width=RENDERED[0])
        self._map = _bend(LENS)

    def close(self) -> None:
        self._renderer.close()

    def take(self, q_rad: np.ndarray) -> Rgb:
        """The picture (480, 640, 3) with the arm at `q_rad` (7,)."""
        self._data.qpos[:7] = q_rad
        mujoco.mj_forward(self._model, self._data)
        body = self._data.body(self._body)
        placed = _pose(body.xmat, body.xpos) @ self._placed
        geom = self._model.geom("board")
        geom.pos[:], geom.quat[:] = placed[:3, 3], _quaternion(placed[:3, :3])
        mujoco.mj_forward(self._model, self._data)
        self._renderer.update_scene(self._data, camera=self._camera)
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        sharp = self._renderer.render()
        bent = cv2.remap(sharp, *self._map, cv2.INTER_LINEAR)
        return cv2.resize(bent, SIZE, interpolation=cv2.INTER_AREA).astype(np.uint8)

    def mount(self, body: str) -> np.ndarray:
        """The truth (4, 4): the camera's optical frame in the frame of `body`."""
        mujoco.mj_forward(self._model, self._data)
        camera = _pose(self._data.camera(self._camera).xmat, self._data.camera(self._camera).xpos) @ OPTICAL
        parent = _pose(self._data.body(body).xmat, self._data.body(body).xpos)
        return np.linalg.inv(parent) @ camera


def _bend(lens: Intrinsics) -> tuple[np.ndarray, np.ndarray]:
    """For each pixel of the bent picture, at twice its size, the place in the rendered one."""
    width, height = SIZE[0] * 2, SIZE[1] * 2
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    pixels = np.stack([(x + 0.5) / 2 - 0.5, (y + 0.5) / 2 - 0.5], axis=-1).reshape(-1, 1, 2)
    stop = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 100, 1e-9)
    straight = cv2.undistortPointsIter(pixels, camera_matrix(lens), distortion(lens), None, None, stop)
    focal = RENDERED[1] / 2 / np.tan(np.radians(FOVY_DEG) / 2)
    rays = straight.reshape(height, width, 2) * focal
    at_x = (rays[..., 0] + (RENDERED[0] - 1) / 2).astype(np.float32)
    at_y = (rays[..., 1] + (RENDERED[1] - 1) / 2).astype(np.float32)
    assert at_x.min() > 0 and at_x.max() < RENDERED[0] and at_y.min() > 0 and at_y.max() < RENDERED[1]
    return at_x, at_y


def _move(x: float, y: float, z: float) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, 3] = x, y, z
    return pose


def _pose(turn: np.ndarray, move: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = np.asarray(turn).reshape(3, 3), move
    return pose


def _quaternion(turn: np.ndarray) -> np.ndarray:
    found = np.zeros(4)
    mujoco.mju_mat2Quat(found, np.ascontiguousarray(turn).ravel())
    return found
