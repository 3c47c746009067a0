"""What the sizes of a network have to be; an error names the class and the size."""

from __future__ import annotations


def check_min(config: object, minimum: int, *names: str) -> None:
    """Raise `ValueError` for the first of these sizes below `minimum`."""
    for name in names:
        if getattr(config, name) < minimum:
            what = f"{type(config).__name__}.{name}"
            raise ValueError(f"{what}: expected at least {minimum}, got {getattr(config, name)}")


def check_multiple(config: object, name: str, of: str) -> None:
    """Raise `ValueError` where one size is no multiple of another one."""
    size, part = getattr(config, name), getattr(config, of)
    if size % part:
        raise ValueError(f"{type(config).__name__}.{name}: {size} is no multiple of {of} {part}")
