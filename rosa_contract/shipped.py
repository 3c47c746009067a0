"""Where the files that come with the packages are: `configs`, `hardware` and `launch`; where a wheel comes from."""

from __future__ import annotations

from pathlib import Path

SHARE = Path("share", "rosa_client")  # of a wheel's and a colcon workspace's prefix (setup.py)


def shipped(*parts: str) -> Path:
    """The path of a shipped file or folder: in the checkout, or where an installed package has its data."""
    packages = Path(__file__).resolve().parents[1]
    if (packages / "configs").is_dir():
        return packages.joinpath(*parts)
    return packages.parents[2].joinpath(SHARE, *parts)  # of <prefix>/lib/python3.x/site-packages


def from_wheel(wheel: str) -> str:
    """How to get what a wheel of ROSA brings: no package index has them (docs/packages.md)."""
    return (
        f"it comes with the wheel {wheel}: `make wheels` in a clone of ROSA, then"
        f" `pip install --find-links .cache/wheels '{wheel}'` there"
    )
