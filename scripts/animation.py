"""The animation at the top of README, from the video of a run.

    make demo FAULT=server_killed ARGS="--episodes 1"
    python scripts/animation.py runs/<date>/video.mp4

Writes docs/demo.webp: an animated picture of at most 1.5 MB, which GitHub shows in a page. Where it would be larger,
its pictures get coarser.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import av
from PIL import Image, ImageChops, ImageStat

ROOT = Path(__file__).resolve().parents[1]
MAX_BYTES = 1_500_000
QUALITIES = (70, 55, 40, 30, 20)
STILL = 1.0  # difference of two pictures, root mean square, of 255, below which nothing moves in them
MAX_STILL_S = 1.5  # of the video: a longer wait is cut to this


def pictures(
    video: Path, width: int, speed: float, rate_hz: float, from_s: float, to_s: float
) -> list[Image.Image]:
    """The video's pictures between two times, as many as the animation shows at `rate_hz`, `width` px wide.

    While nothing moves for long, some are left out.
    """
    found: list[Image.Image] = []
    next_s = moved_s = from_s
    with av.open(str(video)) as container:
        for frame in container.decode(video=0):
            at_s = float(frame.time or 0.0)
            if at_s > to_s:
                break
            if at_s >= next_s:
                height = round(frame.height * width / frame.width)
                picture = frame.to_image().resize((width, height), Image.Resampling.LANCZOS)
                next_s += speed / rate_hz
                if not found or ImageStat.Stat(ImageChops.difference(found[-1], picture)).rms[0] > STILL:
                    moved_s = at_s
                if at_s - moved_s <= MAX_STILL_S:
                    found.append(picture)
    if not found:
        raise SystemExit(f"{video}: no pictures between {from_s:g} and {to_s:g} s")
    return found


def animated(shown: Sequence[Image.Image], rate_hz: float, quality: int) -> bytes:
    """The pictures as an animated WebP that begins again at its end."""
    kept = io.BytesIO()
    shown[0].save(
        kept,
        "WEBP",
        save_all=True,
        append_images=shown[1:],
        duration=round(1000 / rate_hz),
        loop=0,
        quality=quality,
        method=6,
    )
    return kept.getvalue()


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 1 when no quality makes it small enough."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("video", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "demo.webp")
    parser.add_argument("--width", type=int, default=560, help="pixels")
    parser.add_argument("--speed", type=float, default=1.5, help="times the speed of the video")
    parser.add_argument("--rate-hz", type=float, default=10.0, help="pictures per second of the animation")
    parser.add_argument("--from-s", type=float, default=0.0, help="where in the video it begins")
    parser.add_argument("--to-s", type=float, default=60.0, help="where in the video it ends")
    given = parser.parse_args(argv)
    shown = pictures(given.video, given.width, given.speed, given.rate_hz, given.from_s, given.to_s)
    for quality in QUALITIES:
        made = animated(shown, given.rate_hz, quality)
        if len(made) <= MAX_BYTES:
            given.out.write_bytes(made)
            seconds = len(shown) / given.rate_hz
            print(f"wrote {given.out}: {seconds:.0f} s, {len(made) / 1e6:.2f} MB, quality {quality}")
            return 0
    print(
        f"larger than {MAX_BYTES / 1e6:g} MB at any quality: try a smaller --width or --to-s", file=sys.stderr
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
