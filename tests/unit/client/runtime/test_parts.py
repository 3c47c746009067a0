"""State has one owner: what a part or a robot remembers is written in its own class, nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

RUNTIME = Path(__file__).parents[4] / "rosa_client" / "runtime"


def written(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Every attribute that a statement of `tree` sets or deletes, also as an item of it or in a tuple."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            yield from (one for one in [node.value] if isinstance(one, ast.Attribute))


def test_attributes_are_written_by_their_own_class_alone() -> None:
    paths = sorted(RUNTIME.rglob("*.py"))
    assert len(paths) > 20
    for path in paths:
        for attribute in written(ast.parse(path.read_text())):
            owner = ast.unparse(attribute.value)
            where = f"{path.relative_to(RUNTIME)}:{attribute.lineno}"
            allowed = owner == "self" or (path.name, owner) == ("invariants.py", "books")
            assert allowed, f"{where} writes {owner}.{attribute.attr}"


def test_a_write_is_seen_wherever_it_stands() -> None:
    text = "a.b = 1\na.c += 1\na.d, x = 1, 2\na.e[0] = 1\ndel a.f\na.g: int = 0\nb = a.h\na.i()"
    assert [one.attr for one in written(ast.parse(text))] == ["b", "c", "e", "f", "g", "d"]
