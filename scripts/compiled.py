"""Run a command with the decision cores compiled by mypyc: three times as fast, and the same results to the last digit.

    python scripts/compiled.py -m rosa_sim.chaos                        # a night of chaos
    python scripts/compiled.py -m rosa_server.cli bench fleet p4 --robots 1000 --servers 125
    python scripts/compiled.py -m benchmarks.fleet.fleet --only p4/1000/speed
    python scripts/compiled.py --serving -m benchmarks.transport.transport  # what `rosa-compiled` has, and no simulator
    python scripts/compiled.py --serving                                # prints the folder of the compiled packages

The packages are copied to .cache/compiled/ and compiled there, once for each state of the sources (four minutes); the
checkout stays as it is. Production runs the plain sources, or the wheel `rosa-compiled` beside them (`make compiled`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import dataclass_inits
from setup_steps import ROOT, SetupError, digest, run

CACHE = ROOT / ".cache" / "compiled"
PACKAGES = ("rosa_contract", "rosa_client", "rosa_server", "rosa_sim")
# Beside the packages, for what they find by their own place.
LINKED = ("configs", "hardware", "benchmarks", ".cache")
# What a request passes in gateway and codec: the wheel `rosa-compiled` (`release/compiled_wheel.py`). Not in workers:
# compiled code takes values for what annotations say, and a model's outputs may be anything.
SERVING = (
    "rosa_contract/wire/codec.py",
    "rosa_contract/wire/containers.py",
    "rosa_contract/wire/framed.py",
    "rosa_contract/wire/packing.py",
    "rosa_contract/wire/pictures/*.py",
    "rosa_contract/wire/rules.py",
    "rosa_contract/wire/schema.py",
    "rosa_server/timing/batches.py",
    "rosa_server/serving/base/readiness.py",
    "rosa_server/serving/base/shared_memory.py",
    "rosa_server/serving/core/dispatch/cloud.py",
    "rosa_server/serving/core/dispatch/core.py",
    "rosa_server/serving/core/dispatch/dispatcher.py",
    "rosa_server/serving/core/dispatch/lane.py",
    "rosa_server/serving/core/failures.py",
    "rosa_server/serving/core/guard/*.py",
    "rosa_server/serving/core/queueing/actions.py",
    "rosa_server/serving/core/queueing/ledger.py",
    "rosa_server/serving/core/queueing/order.py",
    "rosa_server/serving/core/rates/*.py",
    "rosa_server/serving/core/sessions/router.py",
    "rosa_server/serving/core/sessions/session.py",
    "rosa_server/serving/core/workers/pool.py",
    "rosa_server/serving/core/workers/worker_state.py",
    "rosa_server/serving/edge/doorman.py",
    "rosa_server/serving/gateway.py",
    "rosa_server/serving/edge/intake.py",
    "rosa_server/serving/edge/robots_socket.py",
    "rosa_server/serving/edge/workers/*.py",
)
# And what a simulated fleet runs, all as one group: calls between groups cost a third of what is gained.
CORES = (
    *SERVING,
    "rosa_contract/fallbacks.py",
    "rosa_contract/way.py",
    "rosa_client/connection/greeting.py",
    "rosa_client/motion/chunk_check.py",
    "rosa_client/motion/limits.py",
    "rosa_client/runtime/*.py",
    "rosa_client/runtime/machines/*.py",
    "rosa_client/runtime/parts/*.py",
    "rosa_server/timing/*.py",
    "rosa_server/plan/*.py",
    "rosa_server/serving/core/*/*.py",
    "rosa_server/simulator/*.py",
    "rosa_sim/fleet/measure.py",
    "rosa_sim/fleet/robot.py",
    "rosa_sim/fleet/simulation.py",
    "rosa_sim/chaos/*.py",
)
# What a compiled class cannot do: have its fields' defaults read, or travel between processes when it is frozen.
PLAIN = (
    "__init__.py",
    "__main__.py",
    "limits.py",
    "invariants.py",
    "night.py",
    "peering.py",
    "plan.py",
    "run.py",
    "nodes_plan.py",
    "traced.py",
)
EXTENDED = ("Order", "ServingCore")  # compiled, and extended by what is not
KEPT = 2  # builds: one may still be running
# A higher level makes nothing faster, and Python's own -Wall quadruples the time: it looks at how mypyc indents.
BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import setup
options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
modules = mypycify([*options, *sys.argv[1:]], opt_level="1", debug_level="0", group_name="rosa_compiled")
for one in modules:
    one.extra_compile_args = [*one.extra_compile_args, "-Wno-all"]
setup(name="rosa_compiled", script_args=["build_ext", "--inplace"], ext_modules=modules)
"""


def cores(patterns: Sequence[str] = CORES) -> list[str]:
    """The modules to compile, as paths within the checkout."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern)}
    chosen = (path for path in found if path.name not in PLAIN or path.parent.name == "motion")
    return sorted(str(path.relative_to(ROOT)) for path in chosen)


def built(modules: Sequence[str], cache: Path = CACHE) -> Path:
    """The folder with the packages, these modules compiled. Raises `SetupError`."""
    sources = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    how = f"{sys.version} {version('mypy')} {sorted(modules)} {BUILD} {EXTENDED}"
    state = digest(how, Path(dataclass_inits.__file__), *sources)
    folder = cache / state[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            new = folder.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            _build(new, modules)
            new.rename(folder)
            for old in sorted(cache.glob("*/"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
                shutil.rmtree(old)
    return folder


def _build(folder: Path, modules: Sequence[str]) -> None:
    if shutil.which(os.environ.get("CC", "gcc")) is None:
        raise SetupError("there is no C compiler: sudo apt-get install gcc")
    print(f"[compiled] {len(modules)} modules; minutes, once for these sources", file=sys.stderr)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    for name in modules:
        module = folder / name
        module.write_text(dataclass_inits.with_inits(module.read_text(), EXTENDED))
    run([sys.executable, "-c", BUILD, *modules], "compiled", folder)
    shutil.rmtree(folder / "build")


def become(command: Sequence[str], folder: Path) -> NoReturn:
    """Go on as Python with this command, which finds the compiled packages before the installed ones."""
    places = [
        str(folder),
        str(ROOT),
        os.environ.get("PYTHONPATH", ""),
    ]  # what is no package is in the checkout
    not_from_here = (
        ["-P"] if command[0].startswith("-") else []
    )  # -m and -c would look in the present folder first
    python = [sys.executable, *not_from_here, *command]
    os.execve(sys.executable, python, os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))})


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status of the command; 2 without one, 1 when nothing could be compiled."""
    command = list(sys.argv[1:] if argv is None else argv)
    if not command or command[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if command else 2
    serving = command[0] == "--serving"
    try:
        with redirect_stdout(sys.stderr):  # what is asked for may be a folder, or rows in JSON
            folder = built(cores(SERVING if serving else CORES))
    except SetupError as problem:
        print(f"compiled: {problem}", file=sys.stderr)
        return 1
    if serving and not command[1:]:
        print(folder)
        return 0
    become(command[serving:], folder)


if __name__ == "__main__":
    sys.exit(main())
