"""The picture of a run: what each component, the robot and its arm did when, and why; made from the run's bag."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rosa_client.recording.bag import BagError, read
from rosa_sim.timeline.lanes import TOPICS, robots


def write(bags: Path | Sequence[Path], picture: Path, title: str = "") -> Path:
    """Draw what `bags` recorded, one or several of the same time, to `picture` (.png, .svg or .pdf).

    Raises `BagError` when there is no robot in them. `title`: default the folder of the first bag.
    """
    from rosa_sim.timeline.draw import draw  # Matplotlib takes a second to load

    paths = [bags] if isinstance(bags, Path) else list(bags)
    wanted = [message for path in paths for message in read(path, lambda t: t.rpartition("/")[2] in TOPICS)]
    found = robots(wanted)
    if not found:
        names = ", ".join(map(str, paths))
        raise BagError(f"{names}: expected the robot_status of at least one robot, found none")
    draw(found, picture, title or paths[0].resolve().parent.name)
    return picture
