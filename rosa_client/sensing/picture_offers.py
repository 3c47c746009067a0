"""Publishers of pictures that DDS never connects: another type, or a weaker QoS than the robot file asks for."""

from __future__ import annotations

from collections.abc import Sequence

from rosa_contract.config.cameras import RELIABLE, CameraSpec

RAW, COMPRESSED = "sensor_msgs/Image", "sensor_msgs/CompressedImage"


def picture_type(spec: CameraSpec) -> str:
    """The type of message in which the pictures of `spec` come."""
    return RAW if spec.encoding == "rgb8" else COMPRESSED


def why_unmatched(offers: Sequence[tuple[str, bool]], spec: CameraSpec) -> str:
    """Why none of the publishers is heard, each (type, whether reliable); empty when one is, and without any."""
    wanted = picture_type(spec)
    typed = [reliable for kind, reliable in offers if kind == wanted]
    if offers and not typed:
        return f"are {offers[0][0]}, expected {wanted} for encoding {spec.encoding}"
    if typed and spec.reliability == RELIABLE and not any(typed):
        return "are published best effort, but the robot file asks for reliability: reliable"
    return ""
