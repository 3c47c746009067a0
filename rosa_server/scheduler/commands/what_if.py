"""`rosa plan --what-if`: the same factory with other numbers of robots and servers."""

from __future__ import annotations

from collections.abc import Sequence

from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_contract.wording import nearest
from rosa_server.scheduler.problem import Problem

MAX_NUMBER = 1_000_000


def changed(problem: Problem, changes: Sequence[str]) -> tuple[Problem, tuple[str, ...]]:
    """The problem with `robots=N`, `servers=N` and `TASK=N` in place, and notes on tasks that are left without robots.

    All numbers count from `problem`, so their order does not matter: robots=N is the number of all robots, and the
    tasks that are not named share what the named ones leave, in the mix of `problem`. Raises `ConfigError`.
    """
    tasks = {cls.name: cls.robots for cls in problem.classes}
    numbers = _numbers(changes, tasks)
    servers, robots = numbers.pop("servers", problem.servers), numbers.pop("robots", None)
    found = problem.with_servers(servers)
    if robots is None:
        found = found.with_robots(numbers)
    else:
        found = found.with_robots({**numbers, **_shared(problem, numbers, robots)})
    if not found.classes:
        raise ConfigError("--what-if", ["no robots are left"])
    left = {cls.name for cls in found.classes}
    return found, tuple(_left_out(name, problem, numbers, robots) for name in tasks if name not in left)


def _numbers(changes: Sequence[str], tasks: dict[str, int]) -> dict[str, int]:
    known = ["robots", "servers", *tasks]
    numbers: dict[str, int] = {}
    for change in changes:
        name, _, text = change.partition("=")
        if name in numbers:
            raise ConfigError("--what-if", [ConfigProblem(name, "duplicate_key", "is given twice")])
        if name not in known:
            words = f"unknown name {name!r}{nearest(name, known)}; known: {', '.join(known)}"
            raise ConfigError("--what-if", [ConfigProblem("", "unknown_name", words)])
        lowest = 0 if name in tasks else 1
        whole = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_NUMBER))
        if not whole or not lowest <= int(text) <= MAX_NUMBER:
            words = f"expected {name}=N with a whole number N from {lowest} to {MAX_NUMBER}"
            raise ConfigError("--what-if", [ConfigProblem(change, "out_of_range", words)])
        numbers[name] = int(text)
    return numbers


def _shared(problem: Problem, fixed: dict[str, int], robots: int) -> dict[str, int]:
    """Robots of the tasks that are not in `fixed`, so that there are `robots` in all."""
    free = problem.with_robots(dict.fromkeys(fixed, 0))
    left = robots - sum(fixed.values())
    named = " + ".join(f"{name}={count}" for name, count in fixed.items())
    if left < 0 or (left > 0 and not free.classes):
        raise ConfigError(
            "--what-if",
            [
                f"robots={robots} is the number of all robots, and {named} makes {sum(fixed.values())}; change one"
            ],
        )
    shares = free.scaled_to(left).classes if left else ()
    return {cls.name: 0 for cls in free.classes} | {cls.name: cls.robots for cls in shares}


def _left_out(name: str, problem: Problem, fixed: dict[str, int], robots: int | None) -> str:
    if name in fixed or robots is None:
        return f"{name} has no robots, as requested, and is not in the schedule."
    free = problem.with_robots(dict.fromkeys(fixed, 0))
    own = next(cls.robots for cls in free.classes if cls.name == name)
    share = own * (robots - sum(fixed.values())) / free.robots
    return (
        f"{name} is not in the schedule: of {robots} robot{'' if robots == 1 else 's'} its share is"
        f" {share:.2g}, which rounds to none;"
        f" {name}=1 beside robots={robots} keeps one."
    )
