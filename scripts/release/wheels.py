"""The three wheels of a release: `make wheels` writes them to .cache/wheels.

    python3 scripts/release/wheels.py [--folder .cache/wheels] [rosa-client rosa-serving rosa-sim]

A wheel of plain Python is an archive with a list of its files, so it is written here, from the lists below: needs only
the standard library, and two wheels of one commit are the same bytes. `setup.py` makes one package of everything from a
clone, for colcon and for `pip install -e .`.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARE = "share/rosa_client"  # as `rosa_contract/shipped.py` looks for it
MADE = (2020, 1, 1, 0, 0, 0)  # of every file
PYTHON = ">=3.11"
COMPILED = "rosa-compiled"  # a wheel for one kind of machine, which `compiled_wheel.py` makes


@dataclass(frozen=True)
class Wheel:
    """One wheel. `data`: files and folders that are installed below share/rosa_client."""

    summary: str
    packages: tuple[str, ...]
    requires: tuple[str, ...]  # each a wheel of this table, a list in requirements/, or a package
    extras: dict[str, tuple[str, ...]] = field(default_factory=dict)  # the same, by the extra's name
    data: tuple[str, ...] = ()
    entry_points: str = ""


WHEELS = {
    "rosa-client": Wheel(
        summary="Ask a ROSA server for actions from Python; the code of a robot's side",
        packages=("rosa_contract", "rosa_client"),
        requires=("client",),
        # Without ROS: checks of a robot file, calibration. ROS nodes come with the ROS package rosa_client.
        extras={"robot": ("opencv-python-headless",)},
        data=("configs/robots", "hardware"),
        entry_points="""\
[rosa.commands]
calibrate = rosa_client.commands.calibrate
doctor = rosa_client.commands.doctor
operator = rosa_client.commands.operator
run = rosa_client.commands.run

[rosa.robot_checks]
drivers_and_poses = rosa_client.robot_check:robot_problems
""",
    ),
    "rosa-serving": Wheel(
        summary="Serve robotics foundation models to a fleet of robots: server, scheduler, dashboard",
        packages=("rosa_server",),
        requires=("rosa-client", "base", "server"),
        extras={
            "torch": ("torch",),
            "compiled": (COMPILED,),
            "vlm": ("transformers",),
            "jax": ("jax", "safetensors"),
            "lerobot": ("lerobot>=0.4.4",),
            "ray": ("ray",),
            "view": ("foxglove-sdk", "mcap"),
            "rerun": ("rerun-sdk", "mcap"),
            "sim": ("rosa-sim",),
        },
        data=("configs/*.yaml", "configs/profiles", "configs/foxglove"),
        entry_points="""\
[console_scripts]
rosa = rosa_server.cli:main

[rosa.fit_checks]
models = rosa_server.commands.check:fits
""",
    ),
    "rosa-sim": Wheel(
        summary="ROSA's simulators: fleets of robots in simulated time, and over sockets; `rosa bench`",
        packages=("rosa_sim",),
        requires=("rosa-serving", "sim"),
        # The simulated Panda also needs ROS 2 nodes: it is played from a clone (`make demo`).
        extras={"torch": ("torch",)},
        data=("configs/scenarios", "configs/paper"),
        entry_points="[rosa.commands]\nbench = rosa_sim.fleet.command\n",
    ),
}


def version() -> str:
    """That of the ROS package, which is the release's."""
    found = re.search(r"<version>(.+?)</version>", (ROOT / "package.xml").read_text())
    assert found is not None
    return found[1]


def needed(part: str) -> list[str]:
    """A wheel of the same release, what a list in requirements/ names, or one package."""
    if part in WHEELS or part == COMPILED:
        return [f"{part}=={version()}"]
    listed = ROOT / "requirements" / f"{part}.txt"
    return listed.read_text().splitlines() if listed.exists() else [part]


def metadata(name: str, wheel: Wheel) -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version()}",
        f"Summary: {wheel.summary}",
        "License: Apache-2.0",
        f"Requires-Python: {PYTHON}",
    ]
    always = dict.fromkeys(one for part in wheel.requires for one in needed(part))
    lines += [f"Requires-Dist: {one}" for one in always]
    for extra, parts in wheel.extras.items():
        lines.append(f"Provides-Extra: {extra}")
        for one in (one for part in parts for one in needed(part)):
            lines.append(f'Requires-Dist: {one} ; extra == "{extra}"')
    about = ["Description-Content-Type: text/markdown", "", f"# {name}", "", f"{wheel.summary}."]
    return "\n".join([*lines, *about, ""])


def files_of(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for one in sorted(path.rglob("*")):
        if one.is_file() and "__pycache__" not in one.parts and one.suffix != ".pyc":
            yield one


def contents(name: str) -> dict[str, bytes]:
    """Everything in a wheel, by its name in the archive."""
    wheel, base = WHEELS[name], f"{name.replace('-', '_')}-{version()}"
    found = {
        str(path.relative_to(ROOT)): path.read_bytes()
        for package in wheel.packages
        for path in files_of(ROOT / package)
    }
    for pattern in wheel.data:
        for top in sorted(ROOT.glob(pattern)):
            for path in files_of(top):
                found[f"{base}.data/data/{SHARE}/{path.relative_to(ROOT)}"] = path.read_bytes()
    top_level = "".join(f"{package}\n" for package in wheel.packages)
    texts = {"entry_points.txt": wheel.entry_points, "top_level.txt": top_level}
    return closed(found, base, metadata(name, wheel), "py3-none-any", texts)


def closed(
    files: dict[str, bytes], base: str, about: str, tag: str, texts: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """The files of a wheel and what it says of itself. `tag`: what it runs on."""
    info = f"{base}.dist-info"
    plain = str(tag.endswith("-none-any")).lower()
    told = {
        "METADATA": about,
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: rosa\nRoot-Is-Purelib: {plain}\nTag: {tag}\n",
        **(texts or {}),
        "LICENSE": (ROOT / "LICENSE").read_text(),
    }
    found = files | {f"{info}/{file}": text.encode() for file, text in told.items()}
    record = "".join(f"{file},sha256={_digest(data)},{len(data)}\n" for file, data in found.items())
    found[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    return found


def build(name: str, folder: Path) -> Path:
    """Write one wheel into `folder` and return its path."""
    return write(folder / f"{name.replace('-', '_')}-{version()}-py3-none-any.whl", contents(name))


def write(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write an archive of these files and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for file, data in files.items():
            archive.writestr(zipfile.ZipInfo(file, MADE), data, zipfile.ZIP_DEFLATED)
    return path


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "wheels", help="where they go")
    parser.add_argument("names", nargs="*", metavar="WHEEL", help=f"default: {', '.join(WHEELS)}")
    options = parser.parse_args()
    for name in options.names or WHEELS:
        if name not in WHEELS:
            parser.error(f"{name}: expected one of {', '.join(WHEELS)}")
        path = build(name, options.folder)
        print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
