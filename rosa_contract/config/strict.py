"""Strict loading of YAML into frozen dataclasses: every mistake is reported, with its dotted path, value and remedy.

The dataclass is the only description of a section. A field's limits and its documentation are its metadata, made
by `setting(...)` (`rosa_contract/setting.py`); `docs/configuration.md` is generated from the same metadata.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rosa_contract.errors import ConfigError, ConfigProblem, same_place
from rosa_contract.setting import REQUIRED
from rosa_contract.wording import nearest, shown

if typing.TYPE_CHECKING:  # a worker in a separate environment reads no YAML, and need not have it
    import yaml

    from rosa_contract.config.yaml_loader import Loader, QuickLoader

MAX_FILE_BYTES = 1 << 20
MAX_NODES = 50_000
MAX_DEPTH = 24
MAX_NAME_CHARS = 256
WORDS_OF_1_1 = (
    "yes",
    "no",
    "on",
    "off",
    "Yes",
    "No",
    "On",
    "Off",
    "YES",
    "NO",
    "ON",
    "OFF",
)  # booleans of YAML 1.1


def read_yaml(path: str | Path) -> Any:
    """The content of a YAML file as plain Python values, by the rules of YAML 1.2 (`yaml_loader.py`).

    Raises `ConfigError` for a missing, huge or malformed file, duplicate keys, and alias bombs.
    """
    hint = "; a factory description has a few kilobytes"
    return parse_yaml(read_bounded(path, MAX_FILE_BYTES, hint), str(path))


def read_bounded(path: str | Path, max_bytes: int, hint: str = "") -> bytes:
    """The bytes of a file. Raises `ConfigError` for one that cannot be read or is larger. `hint`: what to say then."""
    try:
        with open(path, "rb") as file:
            raw = file.read(max_bytes + 1)
    except OSError as error:
        problem = ConfigProblem("", "unreadable", f"cannot be read: {error.strerror or error}")
        raise ConfigError(str(path), [problem]) from None
    if len(raw) > max_bytes:
        raise ConfigError(
            str(path), [ConfigProblem("", "too_large", f"is larger than {max_bytes} bytes{hint}")]
        )
    return raw


def parse_yaml(raw: bytes | str, source: str = "<text>") -> Any:
    """Like `read_yaml`, for text in memory."""
    import yaml

    from rosa_contract.config.yaml_loader import DuplicateKey, Loader, QuickLoader, is_plain

    if is_plain(raw):
        try:
            return _document(QuickLoader(raw), source)
        except (yaml.YAMLError, ValueError, RecursionError, OverflowError):
            pass  # read again, for the words
    try:
        return _document(Loader(raw), source)
    except yaml.YAMLError as error:
        cause = "duplicate_key" if isinstance(error, DuplicateKey) else "syntax"
        raise ConfigError(source, [ConfigProblem("", cause, _syntax(error))]) from None
    except (ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            source, [ConfigProblem("", "syntax", f"not valid YAML: {_one_line(error)}")]
        ) from None


def _document(loader: Loader | QuickLoader, source: str) -> Any:
    try:
        node = loader.get_single_node()
        if node is None:
            raise ConfigError(source, [ConfigProblem("", "missing", "is empty; expected a mapping")])
        _check_nodes(loader, node, source)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_nodes(loader: Loader | QuickLoader, root: yaml.Node, source: str) -> None:
    """Refuse documents whose aliases expand without end or beyond `MAX_NODES`, before anything walks them, and
    duplicate keys."""
    import yaml

    from rosa_contract.config.yaml_loader import check_keys

    count = 0
    stack: list[tuple[yaml.Node, int]] = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        count += 1
        if count > MAX_NODES or depth > MAX_DEPTH:
            words = f"is nested deeper than {MAX_DEPTH} or expands to over {MAX_NODES} values"
            raise ConfigError(source, [ConfigProblem("", "too_large", words)])
        if isinstance(node, yaml.MappingNode):
            check_keys(loader, node)
            for key, value in node.value:
                stack += [(key, depth + 1), (value, depth + 1)]
        elif isinstance(node, yaml.SequenceNode):
            stack += [(value, depth + 1) for value in node.value]


def _syntax(error: yaml.YAMLError) -> str:
    """What is wrong and where, on one line, without PyYAML's own name for the text and its excerpt."""
    import yaml

    if not isinstance(error, yaml.MarkedYAMLError):
        return (
            _one_line(error).replace('"<byte string>"', "the file").replace('"<unicode string>"', "the text")
        )
    parts = ((error.problem, error.problem_mark), (error.context, error.context_mark))
    places = [
        text + (f" (line {mark.line + 1}, column {mark.column + 1})" if mark else "")
        for text, mark in parts
        if text
    ]
    return ", ".join(places) or _one_line(error)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _number(value: float) -> str:
    """A number in an error; an integer beyond what a float holds is shown, not converted."""
    return shown(value) if isinstance(value, int) and abs(value) >= 1 << 53 else f"{value:g}"


WRONG: Any = object()  # stands for what could not be taken as it is written


class Reader:
    """Turns plain values into dataclasses and collects every problem on the way."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[ConfigProblem] = []
        self._misread: list[str] = []  # paths at which no value could be taken
        self._depth = 0  # above 0: values are read; else what was read is compared

    def fail(self, path: str, words: str, cause: str = "invalid") -> None:
        """Note a problem; `cause` is one of `CONFIG_CAUSES`. What follows from a value that was not taken is none."""
        if self._depth:
            self._misread += [path] if cause != "unknown_key" else []
        elif any(same_place(path, other) for other in self._misread):
            return
        self.problems.append(ConfigProblem(path, cause, words))

    def finish(self, read: object = None) -> None:
        """Raise `ConfigError` when anything was wrong. `read`: what was read all the same."""
        if self.problems:
            raise ConfigError(self.source, self.problems, read)

    def mapping(self, path: str, value: Any) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            self.fail(path, f"expected a mapping, got {shown(value)}", "wrong_type")
            return None
        bad = [key for key in value if not isinstance(key, str) or not key or len(key) > MAX_NAME_CHARS]
        for key in bad:
            words = f"expected keys of 1 to {MAX_NAME_CHARS} characters of text, got {shown(key)}"
            self.fail(path, words, "wrong_type")
        return None if bad else value

    def section(self, cls: type[Any], path: str, value: Any) -> Any:
        """`value` as an object of the dataclass `cls`, in which a wrong value has its default; None where one that is
        required is wrong or missing. Every mistake is noted."""
        made = self._reading(lambda: self._section(cls, path, value))
        return None if made is WRONG else made

    def value(self, hint: Any, path: str, value: Any, limits: Mapping[str, Any]) -> Any:
        """`value` as the annotated type `hint`, within `limits`. None for what is wrong; entries of a list or a mapping
        that are wrong are None each."""
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is tuple:
            made = self._reading(lambda: self._entries(args[0], path, value, limits))
            return tuple(None if one is WRONG else one for one in made)
        if origin in (dict, Mapping):
            told = self._reading(lambda: self._map(args[1], path, value, limits))
            return {key: None if one is WRONG else one for key, one in told.items()}
        made = self._reading(lambda: self._value(hint, path, value, limits))
        return None if made is WRONG else made

    def _reading(self, read: Callable[[], Any]) -> Any:
        self._depth += 1
        try:
            return read()
        finally:
            self._depth -= 1

    def _section(self, cls: type[Any], path: str, value: Any) -> Any:
        entries = self.mapping(path, value)
        if entries is None:
            return WRONG
        hints, fields = _annotated(cls)  # type: ignore[arg-type] # a class can be hashed
        for key in entries:
            if key not in fields:
                words = f"unknown key{nearest(key, fields)}; known: {', '.join(fields)}"
                self.fail(_join(path, key), words, "unknown_key")
        values: dict[str, Any] = {}
        whole = True
        for name, field in fields.items():
            where = _join(path, name)
            required = field.default is REQUIRED and field.default_factory is REQUIRED
            made: Any = WRONG
            if name in entries:
                made = self._value(hints[name], where, entries[name], field.metadata)
            elif required:
                words = f"is missing; expected {_expected(hints[name])}: {field.metadata.get('doc', '')}"
                self.fail(where, words, "missing")
            if made is not WRONG:
                values[name] = made
            whole = whole and not (required and made is WRONG)
        return cls(**values) if whole else WRONG

    def _value(self, hint: Any, path: str, value: Any, limits: Mapping[str, Any]) -> Any:
        """The value, or WRONG."""
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin in (types.UnionType, typing.Union):
            if value is None and type(None) in args:
                return None
            return self._value(next(arg for arg in args if arg is not type(None)), path, value, limits)
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            return self._section(hint, path, value)
        if origin is tuple:
            before = len(self._misread)
            made = self._entries(args[0], path, value, limits)
            return made if len(self._misread) == before else self._whole(made, path)
        if origin in (dict, Mapping):
            before = len(self._misread)
            told = self._map(args[1], path, value, limits)
            return told if len(self._misread) == before else self._whole(told, path)
        before = len(self._misread)
        made = self._scalar(hint, path, value, limits)
        return made if len(self._misread) == before else WRONG

    def _whole(self, made: Any, path: str) -> Any:
        """A list or a mapping in which something was wrong: of which entries are left out, or that is none itself."""
        entries = made.values() if isinstance(made, dict) else made
        return WRONG if path in self._misread or any(one is WRONG for one in entries) else made

    def _entries(self, item: Any, path: str, value: Any, limits: Mapping[str, Any]) -> tuple[Any, ...]:
        if not isinstance(value, list):
            self.fail(path, f"expected a list, got {shown(value)}", "wrong_type")
            return ()
        if limits.get("length") is not None and len(value) != limits["length"]:
            self.fail(path, f"expected {limits['length']} values, got {len(value)}", "wrong_length")
        return tuple(
            self._value(item, f"{path}[{index}]", entry, limits) for index, entry in enumerate(value)
        )

    def _map(self, item: Any, path: str, value: Any, limits: Mapping[str, Any]) -> dict[str, Any]:
        entries = self.mapping(path, value) or {}
        if item is Any:
            return dict(entries)
        return {key: self._value(item, _join(path, key), entry, limits) for key, entry in entries.items()}

    def _scalar(self, hint: Any, path: str, value: Any, limits: Mapping[str, Any]) -> Any:
        if hint is bool:
            if not isinstance(value, bool):
                hint = f" (in YAML 1.2 {value} is text)" if value in WORDS_OF_1_1 else ""
                self.fail(path, f"expected true or false, got {shown(value)}{hint}", "wrong_type")
            return value
        if hint is str:
            if not isinstance(value, str) or not value.isprintable():
                self.fail(path, f"expected text on one line, got {shown(value)}", "wrong_type")
            elif limits.get("choices") and value not in limits["choices"]:
                hint_text = nearest(value, limits["choices"])
                words = f"must be one of {', '.join(limits['choices'])}, got {shown(value)}{hint_text}"
                self.fail(path, words, "unknown_name")
            return value
        if hint is int:
            if isinstance(value, bool) or not isinstance(value, int):
                self.fail(path, f"expected a whole number, got {shown(value)}", "wrong_type")
                return value
        elif hint is float:
            if isinstance(value, bool) or not isinstance(value, int | float):
                hint = " (YAML 1.2 has no base 60)" if _in_base_60(value) else ""
                self.fail(path, f"expected a number, got {shown(value)}{hint}", "wrong_type")
                return value
            try:
                value = float(value)
            except OverflowError:
                value = math.inf if value > 0 else -math.inf
            if not math.isfinite(value):
                self.fail(path, f"must be finite, got {value}", "out_of_range")
                return value
        else:
            raise TypeError(f"{path}: the strict loader has no rule for {hint!r}")
        self._limits(path, value, limits)
        return value

    def _limits(self, path: str, value: float, limits: Mapping[str, Any]) -> None:
        above, at_least, at_most = limits.get("above"), limits.get("at_least"), limits.get("at_most")
        if above is not None and not value > above:
            self.fail(path, f"must be > {above:g}, got {_number(value)}", "out_of_range")
        elif at_least is not None and value < at_least:
            self.fail(path, f"must be >= {at_least:g}, got {_number(value)}", "out_of_range")
        elif at_most is not None and value > at_most:
            self.fail(path, f"must be <= {at_most:g}, got {_number(value)}", "out_of_range")


@cache
def _annotated(cls: type[Any]) -> tuple[Mapping[str, Any], Mapping[str, dataclasses.Field[Any]]]:
    """Types of a dataclass, and those of its fields that can be given. Annotations are text, which is slow to read."""
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    return typing.get_type_hints(cls), fields


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _in_base_60(value: Any) -> bool:
    """Whether YAML 1.1 would read a number, as in 6:40."""
    return (
        isinstance(value, str) and value.count(":") > 0 and value.replace(":", "").replace(".", "").isdigit()
    )


def _expected(hint: Any) -> str:
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    if typing.get_origin(hint) is tuple:
        return "a list"
    return names.get(hint, "a mapping")
