"""One script per result, in folders by subject; `python -m benchmarks.fleet.scale` runs one."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def command_of(name: str) -> str:
    """What runs the benchmark that writes `results/<name>.json`. Raises `LookupError` where there is none."""
    for path in sorted((ROOT / "benchmarks").glob(f"*/{name}.py")):
        return f"python -m benchmarks.{path.parent.name}.{name}"
    raise LookupError(f"no benchmark is called {name!r}")
