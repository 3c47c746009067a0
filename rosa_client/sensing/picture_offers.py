"""Publishers of pictures that are not taken: DDS never connects another type, or a weaker QoS than the robot file asks
for; and a message may say that its picture has another format.
"""

from __future__ import annotations

from collections.abc import Sequence

from rosa_contract.config.cameras import RELIABLE, CameraSpec

RAW, COMPRESSED = "sensor_msgs/Image", "sensor_msgs/CompressedImage"


def picture_type(spec: CameraSpec) -> str:
    """The type of message in which the pictures of `spec` come."""
    return RAW if spec.encoding == "rgb8" else COMPRESSED


def wrong_format(text: str, spec: CameraSpec) -> str:
    """Why a `CompressedImage` with the format `text` is not one of `spec`, in words; empty when it is."""
    return "" if spec.encoding in text else f"expected {spec.encoding} pictures, got {text!r}"


def why_unmatched(offers: Sequence[tuple[str, bool]], spec: CameraSpec) -> str:
    """Why none of the publishers is heard, each (type, whether reliable); empty when one is, and without any."""
    wanted = picture_type(spec)
    typed = [reliable for kind, reliable in offers if kind == wanted]
    if offers and not typed:
        return f"are {offers[0][0]}, expected {wanted} for encoding {spec.encoding}"
    if typed and spec.reliability == RELIABLE and not any(typed):
        return "are published best effort, but the robot file asks for reliability: reliable"
    return ""
