"""What a run leaves behind. A full disk, or any other reason why it cannot be written, ends no run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from av.error import FFmpegError

from rosa_client.recording.bag import BagError, finish
from rosa_sim import timeline
from rosa_sim.cell.layout.hardware import PICK_PLACE
from rosa_sim.demo import report, video
from rosa_sim.demo.progress import DemoProgress, shown

Made = TypeVar("Made")


class Records:
    """Writes into the run folder. The first thing that cannot be written is told, and the run goes on."""

    def __init__(self, folder: Path, say: DemoProgress, scene: str = PICK_PLACE) -> None:
        """`scene`: the one that the video shows."""
        self.folder = folder
        self._scene = scene
        self.incomplete = False
        self._say = say

    def try_to(self, write: Callable[[], Made]) -> Made | None:
        """What `write` returns, or None when it could not."""
        try:
            return write()
        except (OSError, FFmpegError, BagError) as error:
            if not self.incomplete:
                self._say.line(f"the run goes on, but its record is incomplete: {_words(error)}")
            self.incomplete = True
            return None

    def summary(self, episodes: Sequence[report.Episode], extra: dict[str, Any]) -> None:
        """After every episode, so that an interrupted run keeps what it has."""
        self.try_to(lambda: report.write(self.folder, episodes, extra))

    def close(self, episodes: Sequence[report.Episode], shots: Sequence[video.Shot]) -> None:
        """Write video, timeline and the bag's index, also of a run that was interrupted. `shots`: empty for no video.

        Raises `KeyboardInterrupt` for a further Ctrl-C; what is finished by then stays.
        """
        say = self._say
        say.line(f"\n{report.footer(episodes)}")
        if shots:
            self._tell("video", self._video(shots))
        try:
            # The timeline is drawn from the bag, and a bag is complete only with its index.
            bag = self.bag_line()
            self._tell("timeline", timeline.write(self.folder / "run.mcap", self.folder / "timeline.png"))
        except (OSError, BagError) as error:
            self.incomplete = True
            say.line(f"no timeline picture: {error}")
        say.line(bag)
        summary = self.folder / "summary.json"
        self._tell("summary", summary if summary.is_file() else None)

    def bag_line(self) -> str:
        """A line about the recording. Also adds the index when the recorder could not."""
        path = self.folder / "run.mcap"
        try:
            note = "its recorder ended before the run; " if finish(path) else ""
        except (OSError, BagError) as error:
            self.incomplete = True
            return f"no bag: {error}"
        return f"bag       {shown(path)} ({note}opens in Foxglove)"

    def _video(self, shots: Sequence[video.Shot]) -> Path | None:
        path, made = self.folder / "video.mp4", None

        def progress(done: int, of: int) -> None:
            self._say.status(f"video: {done} of {of} pictures")

        try:
            made = self.try_to(lambda: video.render(shots, path, progress, self._scene))
        finally:
            if made is None:  # half a video cannot be played
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        return made

    def _tell(self, what: str, path: Path | None) -> None:
        if path is not None:
            self._say.line(f"{what:<9} {shown(path)}")


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
