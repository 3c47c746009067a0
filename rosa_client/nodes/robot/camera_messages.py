"""What a camera says about its lens, as `sensor_msgs/CameraInfo`."""

from __future__ import annotations

from sensor_msgs.msg import CameraInfo

from rosa_contract.config.cameras import CameraSpec, Intrinsics

MIN_COEFFICIENTS = (
    5  # coefficients that a CameraInfo of the plumb_bob model has; those that are not measured are 0
)


def lens_of(spec: CameraSpec, focal_px: float) -> Intrinsics | None:
    """The calibration in the robot file, else an ideal pinhole with the driver's `focal_px`, else None (0: unknown)."""
    if spec.intrinsics is not None:
        return spec.intrinsics
    if focal_px > 0:
        return Intrinsics(focal_px, focal_px, spec.width / 2, spec.height / 2)
    return None


def camera_info(spec: CameraSpec, lens: Intrinsics | None) -> CameraInfo:
    """Without a header; all zero for an uncalibrated camera, as REP 104 asks.

    The projection P is that of the picture with its distortion removed by the same camera matrix: P = [K | 0].
    """
    info = CameraInfo(height=spec.height, width=spec.width)
    if lens is not None:
        info.distortion_model = lens.model
        info.d = [*lens.distortion, *[0.0] * (MIN_COEFFICIENTS - len(lens.distortion))]
        info.k = [lens.fx, 0.0, lens.cx, 0.0, lens.fy, lens.cy, 0.0, 0.0, 1.0]
        info.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
        info.p = [lens.fx, 0.0, lens.cx, 0.0, 0.0, lens.fy, lens.cy, 0.0, 0.0, 0.0, 1.0, 0.0]
    return info
