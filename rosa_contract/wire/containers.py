"""Rules of what holds several values: arrays, maps, lists and pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rosa_contract.wire.bounds import MAX_ARRAYS, MAX_NAME_CHARS
from rosa_contract.wire.packing import pack_arrays, unpack_array
from rosa_contract.wire.rules import Read, Rule, Write, refused


@dataclass(frozen=True)
class Array(Rule):
    """A numpy array as [dtype, shape, bytes]; every number in it is finite."""

    def reader(self, where: str) -> Read:
        return lambda value: unpack_array(where, value)

    def writer(self, where: str) -> Write:
        return lambda value: pack_arrays({where: value})[where]

    @property
    def kind(self) -> str:
        return "array"


@dataclass(frozen=True)
class Arrays(Rule):
    """Arrays by name."""

    def reader(self, where: str) -> Read:
        entries = _entries(where, MAX_ARRAYS)
        return lambda value: {name: unpack_array(name, one) for name, one in entries(value).items()}

    def writer(self, where: str) -> Write:
        entries = _entries(where, MAX_ARRAYS)

        def write(value: Any) -> dict[str, list[Any]]:
            if type(value) is not dict and not isinstance(value, Mapping):  # the latter is slow to see
                raise refused(where, "a mapping of names to arrays", value)
            return pack_arrays(entries(dict(value)))

        return write

    def strict_writer(self, where: str) -> Write:
        return self.writer(where)

    @property
    def kind(self) -> str:
        return "name -> array"

    @property
    def bound(self) -> str:
        return f"up to {MAX_ARRAYS}"


@dataclass(frozen=True)
class Map(Rule):
    """Values by name."""

    rule: Rule
    max_entries: int

    def reader(self, where: str) -> Read:
        entries, read_one = _entries(where, self.max_entries), self.rule.reader(where)
        return lambda value: {name: read_one(one) for name, one in entries(value).items()}

    def writer(self, where: str) -> Write:
        write_one = self.rule.writer(where)
        if write_one is None:
            return dict
        return lambda value: {name: write_one(one) for name, one in value.items()}

    @property
    def kind(self) -> str:
        return f"name -> {self.rule.kind}"

    @property
    def bound(self) -> str:
        return f"up to {self.max_entries}" + (f"; each {self.rule.bound}" if self.rule.bound else "")


@dataclass(frozen=True)
class Several(Rule):
    """Values in their order. `made`: of what type they are after reading."""

    rule: Rule
    max_entries: int
    made: type[list[Any]] | type[tuple[Any, ...]] = tuple

    def reader(self, where: str) -> Read:
        read_one, limit, made = self.rule.reader(where), self.max_entries, self.made

        def read(value: Any) -> Any:
            if not isinstance(value, list) or len(value) > limit:
                raise refused(where, f"a list of at most {limit}", value)
            return made([read_one(one) for one in value])

        return read

    def writer(self, where: str) -> Write:
        write_one = self.rule.writer(where)
        if write_one is None:
            return list
        return lambda value: [write_one(one) for one in value]

    @property
    def kind(self) -> str:
        return f"list of {self.rule.kind}"

    @property
    def bound(self) -> str:
        return f"up to {self.max_entries}" + (f"; each {self.rule.bound}" if self.rule.bound else "")


@dataclass(frozen=True)
class Pair(Rule):
    """Two values, as a list of two."""

    first: Rule
    second: Rule
    words: str  # such as "[height, width]"

    def reader(self, where: str) -> Read:
        read_first, read_second = self.first.reader(where), self.second.reader(where)

        def read(value: Any) -> tuple[Any, Any]:
            if not isinstance(value, list) or len(value) != 2:
                raise refused(where, self.words, value)
            return read_first(value[0]), read_second(value[1])

        return read

    def writer(self, where: str) -> Write:
        return list

    @property
    def kind(self) -> str:
        return self.words

    @property
    def bound(self) -> str:
        return self.first.bound if self.first == self.second else ""


def _entries(where: str, limit: int) -> Callable[[Any], dict[str, Any]]:
    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > limit:
            raise refused(where, f"a map of at most {limit} entries", value)
        for entry in value:
            if not isinstance(entry, str) or not 0 < len(entry) <= MAX_NAME_CHARS:
                raise refused(where, f"names of 1 to {MAX_NAME_CHARS} characters", entry)
        return value

    return check


ARRAY, ARRAYS = Array(), Arrays()
