"""Where the package's own files are: `configs`, `launch` and `hardware`."""

from __future__ import annotations

from pathlib import Path

from ament_index_python.packages import get_package_share_directory

from rosa_client.bringup.graph import PACKAGE

CHECKOUT = Path(__file__).resolve().parents[2]


def share_folder() -> Path:
    """The checkout, or the folder of an installed package."""
    return CHECKOUT if (CHECKOUT / "configs").is_dir() else Path(get_package_share_directory(PACKAGE))
