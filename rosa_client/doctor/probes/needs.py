"""Asks the server's package, where it is installed, what the models need. It is not imported: see `setup.py`."""

from __future__ import annotations

from importlib.metadata import entry_points

from rosa_client.doctor.judges.needs import NeedsFact
from rosa_contract.errors import ConfigError


def needs_fact(factory: str, robot: str) -> NeedsFact:
    """`factory` and `robot` are files."""
    lines: list[str] = []
    try:
        for entry in entry_points(group="rosa.fit_checks"):
            lines += entry.load()(factory, robot)
    except ConfigError as error:
        return NeedsFact(problems=[str(problem) for problem in error.problems])
    except ImportError as error:
        return NeedsFact(unknown=f"a model's package is not installed here ({error})")
    return NeedsFact(lines) if lines else NeedsFact(unknown="the server's package is not installed here")
