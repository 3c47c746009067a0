"""Dataclasses with their `__init__` written out, as source text.

A dataclass makes its `__init__` when it is imported, too late for mypyc: in compiled cores every call, answer and
batch would still be made by interpreted code, a fifth of all time. In the copy that `compiled.py` makes it is written
out, and the class is not frozen, as a frozen one sets its fields by name.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

ATTR = "mypyc_attr"
DEFAULTS_THAT_STAY = (ast.Constant, ast.UnaryOp, ast.Name, ast.Attribute, ast.Tuple)


def with_inits(source: str, extended: Collection[str] = ()) -> str:
    """The same module; each plain dataclass of it has an `__init__` of its own. `extended`: classes that interpreted
    ones may extend, which costs each call of their methods a little."""
    module = ast.parse(source)
    classes = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    for node in classes:
        _write_out(node)
    for node in classes:
        if node.name in extended:
            node.decorator_list.insert(
                0, ast.parse(f"{ATTR}(allow_interpreted_subclasses=True)", mode="eval").body
            )
    if any(node.name in extended for node in classes):
        first = next(at for at, node in enumerate(module.body) if isinstance(node, ast.ImportFrom))
        module.body.insert(first + 1, ast.parse(f"from mypy_extensions import {ATTR}").body[0])
    return ast.unparse(module)


def _write_out(node: ast.ClassDef) -> None:
    options = _options(node)
    if options is None or node.bases or any(_name(one) == "__init__" for one in node.body):
        return
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    given = [one for one in fields if not _set_later(one)]
    texts = [_parameter(one) for one in given]
    if not fields or None in texts:
        return
    sets = [_sets(one) for one in given]
    if any(_name(one) == "__post_init__" for one in node.body):
        sets.append("self.__post_init__()")
    header = f"def __init__(self, {', '.join(text for text in texts if text)}) -> None:"
    init = ast.parse("\n    ".join([header, *sets])).body[0]
    node.body.insert(node.body.index(fields[-1]) + 1, init)
    if options.pop("frozen", False):
        options["unsafe_hash"] = True
    options["init"] = False
    chosen = ", ".join(f"{name}={value}" for name, value in options.items())
    node.decorator_list = [ast.parse(f"dataclass({chosen})", mode="eval").body]


def _options(node: ast.ClassDef) -> dict[str, bool] | None:
    """What its `@dataclass(...)` says; None for a class with another decorator, or none."""
    if len(node.decorator_list) != 1:
        return None
    decorator = node.decorator_list[0]
    call, keywords = (
        (decorator.func, decorator.keywords) if isinstance(decorator, ast.Call) else (decorator, [])
    )
    if not isinstance(call, ast.Name) or call.id != "dataclass":
        return None
    return {str(one.arg): bool(ast.literal_eval(one.value)) for one in keywords}


def _set_later(field: ast.AnnAssign) -> bool:
    """Whether it is `field(init=False)`, which `__post_init__` sets."""
    value = field.value
    if not isinstance(value, ast.Call) or value.args or [one.arg for one in value.keywords] != ["init"]:
        return False
    return ast.unparse(value.keywords[0].value) == "False"


def _parameter(field: ast.AnnAssign) -> str | None:
    """`name: type = default`; None where the default is more than can be written so."""
    said = f"{ast.unparse(field.target)}: {ast.unparse(field.annotation)}"
    if field.value is None:
        return said
    if _factory(field):
        return f"{said} | None = None"
    return f"{said} = {ast.unparse(field.value)}" if isinstance(field.value, DEFAULTS_THAT_STAY) else None


def _sets(field: ast.AnnAssign) -> str:
    name, factory = ast.unparse(field.target), _factory(field)
    return f"self.{name} = {factory}() if {name} is None else {name}" if factory else f"self.{name} = {name}"


def _factory(field: ast.AnnAssign) -> str:
    """What makes the default of `field(default_factory=...)`; empty for another default."""
    value = field.value
    if (
        not isinstance(value, ast.Call)
        or value.args
        or [one.arg for one in value.keywords] != ["default_factory"]
    ):
        return ""
    factory = value.keywords[0].value
    return ast.unparse(factory) if isinstance(factory, ast.Name) else f"({ast.unparse(factory)})"


def _name(node: ast.stmt) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else ""
