"""A declared dataclass -> how its objects are written as maps and read back. Made once, when a module is imported.

The keys of a map are the names of the fields. A field that has its default is left out; one that is missing gets it.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.setting import REQUIRED
from rosa_contract.wire.packing import short
from rosa_contract.wire.rules import InFrames, Read, Rule, Write, refused, rule_of_setting

Problem = Callable[[Any], str]  # why an object makes no sense as a whole; empty where it does
_MAX_SHOWN = 3  # unknown keys


def rules_of(kind: type[Any]) -> dict[str, Rule]:
    """Field -> its rule, in the order of the fields."""
    return {one.name: rule_of_setting(one.metadata, str(one.type)) for one in dataclasses.fields(kind)}


def field_reader(kind: type[Any], name: str) -> Read:
    """The check of one field, for whoever reads a header in part."""
    return rules_of(kind)[name].reader(f"{kind.__name__}: {name}")


def values_reader(kind: type[Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Reads a map's fields by name; those `InFrames` are left out, and unknown keys are passed over."""
    plan = _plan(kind, lambda rule, where: rule.reader(where))
    required = REQUIRED  # a name of this function's own is found sooner

    def read(content: Mapping[str, Any]) -> dict[str, Any]:
        values = {}
        for name, read_one, default, made in plan:
            if name in content:
                values[name] = read_one(content[name])
            elif default is required:
                raise CodecError("bad_field", f"{kind.__name__}: {name}: is missing")
            else:
                values[name] = default if made is None else made()
        return values

    return read


def maker(kind: type[Any]) -> Callable[[dict[str, Any]], Any]:
    """Makes an object of the values of all its fields by name, which are its own from then on.

    A frozen dataclass sets its fields one after the other, in several times the time.
    """
    if hasattr(kind, "__post_init__") or not kind.__dictoffset__:
        return lambda values: kind(**values)
    new, put = object.__new__, object.__setattr__

    def made(values: dict[str, Any]) -> Any:
        one = new(kind)
        put(one, "__dict__", values)
        return one

    return made


def map_writer(
    kind: type[Any], strict: bool = False, head: Mapping[str, Any] | None = None
) -> Callable[[Any], dict[str, Any]]:
    """Writes an object's fields as a map, without those `InFrames`. `strict`: it refuses what a reader would refuse.
    `head`: what each map begins with."""
    plan = _plan(kind, lambda rule, where: rule.strict_writer(where) if strict else rule.writer(where))
    # Most fields that are left out have the default itself, and no call is needed to see that.
    writers = [
        (name, write, REQUIRED if made else default, _omitted(default, made))
        for name, write, default, made in plan
    ]
    names = [name for name, *_ in plan]
    values_of: Callable[[Any], Any] | None = attrgetter(*names) if names else None
    begun = dict(head or {})

    def written(message: Any) -> dict[str, Any]:
        content = begun.copy()
        if values_of is None:
            return content
        values = values_of(message) if len(names) > 1 else (values_of(message),)
        for (name, write, default, omitted), value in zip(writers, values, strict=True):
            if value is not default and (omitted is None or not omitted(value)):
                content[name] = value if write is None else write(value)
        return content

    return written


def _plan(kind: type[Any], of: Callable[[Rule, str], Any]) -> list[tuple[str, Any, Any, Any]]:
    """(field, what its rule makes of it, default, what makes the default) of each field in the header."""
    found = []
    for name, rule in rules_of(kind).items():
        if not isinstance(rule, InFrames):
            found.append((name, of(rule, f"{kind.__name__}: {name}"), *_default(kind, name)))
    return found


def _default(kind: type[Any], name: str) -> tuple[Any, Callable[[], Any] | None]:
    """(default, what makes it); `REQUIRED` where the field has none, or has to be there even so."""
    field = kind.__dataclass_fields__[name]
    if field.metadata["always"]:
        return REQUIRED, None
    if field.default_factory is not dataclasses.MISSING:
        return None, field.default_factory
    return field.default, None


def _omitted(default: Any, made: Callable[[], Any] | None) -> Callable[[Any], bool] | None:
    """Whether a value that is not the default itself is like it; None where nothing else is."""
    if default is REQUIRED or (default is None and made is None):
        return None
    return _is_empty if made is not None or default == () else partial(operator.eq, default)


def _is_empty(value: Any) -> bool:
    return not value and isinstance(value, dict | list | tuple)


@dataclass(frozen=True)
class Object(Rule):
    """An object of a declared dataclass, as a map of its fields. Unknown keys are refused."""

    of: type[Any]
    problem: Problem | None = None
    strict: bool = False  # refused at the sender, whatever the reader would refuse

    def fields_reader(self, where: str) -> Callable[[Any], dict[str, Any]]:
        """As `reader`, with the fields by name instead of an object of them."""
        values, known = values_reader(self.of), rules_of(self.of).keys()

        def read(value: Any) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise refused(where, f"a map of {', '.join(known)}", value)
            if not value.keys() <= known:
                raise CodecError("bad_field", f"{where}: unknown key: {unknown_keys(value, known)}")
            return values(value)

        return read

    def reader(self, where: str) -> Read:
        made, problem, fields = maker(self.of), self.problem, self.fields_reader(where)

        def read(value: Any) -> Any:
            found = made(fields(value))
            if problem is not None and (words := problem(found)):
                raise CodecError("bad_field", f"{where}: {words}")
            return found

        return read

    def writer(self, where: str) -> Write:
        problem, write = self.problem, map_writer(self.of, self.strict)

        def written(value: Any) -> dict[str, Any]:
            if problem is not None and (words := problem(value)):
                raise CodecError("bad_field", f"{where}: {words}")
            return write(value)

        return written

    def strict_writer(self, where: str) -> Write:
        return Object(self.of, self.problem, True).writer(where)

    @property
    def kind(self) -> str:
        return self.of.__name__


def unknown_keys(content: Mapping[Any, Any], known: Any) -> str:
    return ", ".join(short(key) for key in list(content.keys() - known)[:_MAX_SHOWN])


def parts_of(kind: type[Any]) -> Iterator[type[Any]]:
    """The declared dataclasses that a message's fields are made of, each once, for its documentation."""
    for rule in rules_of(kind).values():
        while (inner := getattr(rule, "rule", None)) is not None:
            rule = inner
        if isinstance(rule, Object):
            yield rule.of
            yield from parts_of(rule.of)
