"""The wheel `rosa-compiled`: what a request passes in gateway and codec, as machine code (`make compiled`).

    PYTHONPATH=scripts python scripts/release/compiled_wheel.py [--folder .cache/wheels]

For the Python that runs this, on a machine like this one. It holds nothing but compiled modules, which lie beside the
plain files of `rosa-client` and `rosa-serving` once it is installed, and which Python then prefers. Plain files and
compiled modules are of one release, or no server starts (`rosa_server/serving/base/compiled.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import compiled
from release import wheels
from setup_steps import SetupError

from rosa_server.serving.base.release import release

ABOUT = wheels.Wheel(
    summary="ROSA's gateway and codec as machine code, for one Python on one kind of machine",
    packages=(),
    requires=("rosa-serving", "mypy_extensions"),  # the latter: see `EXTENDED` in compiled.py
)
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
RECORD = "rosa_server/compiled.json"


def tag() -> str:
    """Of what runs this, such as cp311-cp311-linux_x86_64."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def contents(modules: Sequence[str], cache: Path = compiled.CACHE) -> dict[str, bytes]:
    """Everything in the wheel, by its name in the archive. Raises `SetupError` where nothing can be compiled."""
    folder = compiled.built(modules, cache)
    libraries = sorted(path for path in folder.rglob(f"*{SUFFIX}") if ".cache" not in path.parts)
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in libraries}
    found[RECORD] = json.dumps({"release": release(), "modules": list(modules)}, indent=1).encode()
    base = f"{wheels.COMPILED.replace('-', '_')}-{wheels.version()}"
    return wheels.closed(found, base, wheels.metadata(wheels.COMPILED, ABOUT), tag())


def build(folder: Path, modules: Sequence[str] = (), cache: Path = compiled.CACHE) -> Path:
    """Write the wheel into `folder` and return its path. `modules`: none: all of a request's path."""
    name = f"{wheels.COMPILED.replace('-', '_')}-{wheels.version()}-{tag()}.whl"
    return wheels.write(folder / name, contents(modules or compiled.cores(compiled.SERVING), cache))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--folder", type=Path, default=wheels.ROOT / ".cache" / "wheels", help="where it goes"
    )
    options = parser.parse_args()
    try:
        path = build(options.folder)
    except SetupError as problem:
        print(f"compiled: {problem}", file=sys.stderr)
        return 1
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
