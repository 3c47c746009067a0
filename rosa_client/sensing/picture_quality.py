"""How good the pictures of a call may be where the link carries them too slowly. Pure: time is an argument.

Off unless a camera of the robot file has `min_quality`. An answer tells how long its call was at the server; the rest
of its round trip was its way. Two calls in a row whose way took more than `SLOW` of what their deadlines left for it
lower the quality by one step; after a calm time, in which no way took more than `CALM` of that, it is raised by one. A
step that does not hold makes the next calm time twice as long, so a link that carries just one quality is not tried all
the time. Answers to calls that left before a step say nothing about it. A call that gets no answer says nothing either:
it may have been lost, and smaller pictures would not have helped.
"""

from __future__ import annotations

from collections.abc import Mapping

from rosa_client.runtime.commands import Decision
from rosa_contract.config.cameras import CameraSpec
from rosa_contract.errors import CodecError
from rosa_contract.wire.images import EncodedImage, decode_image, encode_image
from rosa_contract.wire.messages import Response

STEPS = 4  # from a camera's own quality down to its `min_quality`
SLOW, CALM = 0.8, 0.3  # shares of the time that a call has for its way
SLOW_IN_A_ROW = 2  # one slow call is a burst on the air
MIN_CALM_S, MAX_CALM_S = 10.0, 60.0  # robots that share a link notice at the same time that it has room
MAX_SENT = 64  # calls that are remembered until their answers come


class PictureQuality:
    """Of one robot."""

    def __init__(self, cameras: Mapping[str, CameraSpec]) -> None:
        self._cameras = {name: spec for name, spec in cameras.items() if spec.min_quality is not None}
        self.step = 0  # 0: pictures leave as they came
        self._sent: dict[int, tuple[float, float]] = {}  # request -> when, and its budget in s
        self._slow = 0  # calls in a row
        self._step_s = float("-inf")  # when the step was taken
        self._calm_from_s = float("inf")  # no way was long since then; infinite before the first answer
        self._calm_s = MIN_CALM_S  # so long, before the quality is raised
        self._raised = False  # the last step was up

    def quality(self, camera: str) -> int | None:
        """What a camera's pictures are to have now; None: they leave as they came."""
        spec = self._cameras.get(camera)
        if spec is None or spec.min_quality is None or not self.step:
            return None
        return spec.quality - round((spec.quality - spec.min_quality) * self.step / STEPS)

    def fit(self, images: Mapping[str, EncodedImage]) -> Mapping[str, EncodedImage]:
        """The pictures of a call, as small as they have to be now. One that cannot be read leaves as it came."""
        if not self.step:
            return images
        return {name: self._fitted(name, image) for name, image in images.items()}

    def _fitted(self, camera: str, image: EncodedImage) -> EncodedImage:
        quality = self.quality(camera)
        if quality is None:
            return image
        try:
            smaller = encode_image(decode_image(image), image.encoding, quality)
        except CodecError:
            return image
        return (
            smaller if len(smaller.data) < len(image.data) else image
        )  # its own quality may be lower already

    def sent(self, now_s: float, request_id: int, budget_ms: float) -> None:
        """A call leaves."""
        if self._cameras:
            self._sent[request_id] = now_s, budget_ms / 1000
            while len(self._sent) > MAX_SENT:
                del self._sent[next(iter(self._sent))]

    def answered(self, now_s: float, response: Response) -> Decision | None:
        """An answer has come, in time or not. Returns what changes from now on, if anything does."""
        sent_s, budget_s = self._sent.pop(response.request_id, (float("-inf"), 0.0))
        server_s = (response.queue_ms + response.inference_ms) / 1000
        room_s, way_s = budget_s - server_s, now_s - sent_s - server_s
        if sent_s <= self._step_s or room_s <= 0:  # not about this step, or late without any way
            return None
        if way_s > CALM * room_s:
            self._calm_from_s = float("inf")
        elif self._calm_from_s == float("inf"):
            self._calm_from_s = now_s
        self._slow = self._slow + 1 if way_s > SLOW * room_s else 0
        words = f"the way of a call took {way_s * 1000:.0f} of the {room_s * 1000:.0f} ms that its deadline left for it"
        if self._slow >= SLOW_IN_A_ROW and self.step < STEPS:
            self._calm_s = min(2 * self._calm_s, MAX_CALM_S) if self._raised else self._calm_s
            return self._takes(now_s, self.step + 1, "lower_pictures", "slow_link", words)
        if self.step and now_s - self._calm_from_s >= self._calm_s:
            if self._raised:  # the step before has held
                self._calm_s = MIN_CALM_S
            return self._takes(now_s, self.step - 1, "raise_pictures", "link_recovered", words)
        return None

    def _takes(self, now_s: float, step: int, action: str, cause: str, words: str) -> Decision:
        self._raised = step < self.step
        self.step, self._step_s = step, now_s
        self._slow, self._calm_from_s = 0, float("inf")
        shown = ", ".join(
            f"{name} {self.quality(name) or spec.quality}" for name, spec in self._cameras.items()
        )
        return Decision(action, cause, f"{words}; JPEG quality from now on: {shown}")
