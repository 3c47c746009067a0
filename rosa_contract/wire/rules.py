"""What a field of a message may hold. A rule is at once the check of what came, how it is written, and its words.

A message is a frozen dataclass whose fields are `declared(rule, meaning)`. `schema.py` makes its reader and its writer
of them when the module is imported, and `scripts/generate_docs.py` makes docs/reference/messages.md of them.
Readers raise `CodecError` for whatever does not fit; the text names the field, what was expected and what came.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.setting import REQUIRED, setting
from rosa_contract.wire.bounds import MAX_ID, MAX_LENGTH, MAX_NAME_CHARS, MAX_TEXT_CHARS
from rosa_contract.wire.images import MAX_SIDE_PX, check_size
from rosa_contract.wire.packing import MAX_HEADER_BYTES, short

_NUMBERS = (float, int)  # `float | int` would be made anew in each check
Read = Callable[[Any], Any]  # a value from a header -> the value as it is used
Write = Callable[[Any], Any] | None  # the value as it is used -> as it travels; None: as it is


class Rule:
    """What one value may be."""

    def reader(self, where: str) -> Read:
        """Checks a value that came. `where`: the field, as errors name it."""
        raise NotImplementedError

    def writer(self, where: str) -> Write:
        """Refuses what would not be a number, or not what was agreed, at the sender already."""
        return None

    def strict_writer(self, where: str) -> Write:
        """Refuses whatever the reader would refuse."""
        return self.reader(where)

    @property
    def kind(self) -> str:
        """Its type, for docs/reference/messages.md."""
        raise NotImplementedError

    @property
    def bound(self) -> str:
        """Its bounds, for docs/reference/messages.md; empty where there are none."""
        return ""


def declared(rule: Rule, meaning: str, default: Any = REQUIRED, *, always: bool = False) -> Any:
    """A field of a message. One with a default is left out where it has it, and may be missing.

    `always`: it is written even then, and a message without it is refused.
    """
    return setting(meaning, default, rule=rule, always=always)


def refused(where: str, expected: str, got: Any) -> CodecError:
    return CodecError("bad_field", f"{where}: expected {expected}, got {short(got)}")


@dataclass(frozen=True)
class Name(Rule):
    """What something is called: printable, and never empty."""

    def reader(self, where: str) -> Read:
        def read(value: Any) -> str:
            if isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS and value.isprintable():
                return value
            raise refused(where, f"1 to {MAX_NAME_CHARS} printable characters", value)

        return read

    @property
    def kind(self) -> str:
        return "name"

    @property
    def bound(self) -> str:
        return f"1 to {MAX_NAME_CHARS} printable characters"


@dataclass(frozen=True)
class Text(Rule):
    """Text of a bounded length, perhaps none. `max_chars` None: as long as a header may be."""

    max_chars: int | None = MAX_TEXT_CHARS
    min_chars: int = 0

    def reader(self, where: str) -> Read:
        min_chars = self.min_chars
        max_chars = MAX_HEADER_BYTES if self.max_chars is None else self.max_chars
        expected = f"text of {f'{min_chars} to' if min_chars else 'at most'} {max_chars} characters"

        def read(value: Any) -> str:
            if isinstance(value, str) and min_chars <= len(value) <= max_chars:
                return value
            raise refused(where, expected, value)

        return read

    @property
    def kind(self) -> str:
        return "text"

    @property
    def bound(self) -> str:
        if self.max_chars is None:
            return ""
        return f"{self.min_chars or 'up'} to {self.max_chars} characters"


@dataclass(frozen=True)
class Choice(Rule):
    """One of a few words. `empty`: or none of them."""

    words: Collection[str]
    empty: bool = False

    def reader(self, where: str) -> Read:
        known = frozenset([*self.words, ""] if self.empty else self.words)

        def read(value: Any) -> str:
            if isinstance(value, str) and value in known:
                return value
            raise refused(where, f"one of {', '.join(self.words)}", value)

        return read

    def writer(self, where: str) -> Write:
        return self.reader(where)

    @property
    def kind(self) -> str:
        return "word"

    @property
    def bound(self) -> str:
        return f"{', '.join(f'`{word}`' for word in self.words)}{'; or empty' if self.empty else ''}"


@dataclass(frozen=True)
class Whole(Rule):
    """A whole number within bounds."""

    min_value: int = 0
    max_value: int = MAX_ID

    def reader(self, where: str) -> Read:
        min_value, max_value = self.min_value, self.max_value

        def read(value: Any) -> int:
            whole = type(value) is int or (isinstance(value, int) and not isinstance(value, bool))
            if whole and min_value <= value <= max_value:
                number: int = value
                return number
            raise refused(where, f"a whole number from {min_value} to {max_value}", value)

        return read

    @property
    def kind(self) -> str:
        return "whole number"

    @property
    def bound(self) -> str:
        return f"{self.min_value} to {'2^63 - 1' if self.max_value == MAX_ID else self.max_value}"


@dataclass(frozen=True)
class Number(Rule):
    """A finite number within bounds."""

    min_value: float
    max_value: float
    above: bool = False  # `min_value` itself is not allowed

    def reader(self, where: str) -> Read:
        min_value, max_value, above = self.min_value, self.max_value, self.above

        def read(value: Any) -> float:
            if (
                (type(value) is float or (isinstance(value, _NUMBERS) and not isinstance(value, bool)))
                and min_value <= value <= max_value
                and not (above and value == min_value)
            ):
                return float(value)
            raise refused(
                where, f"a number {'above' if above else 'from'} {min_value:g} to {max_value:g}", value
            )

        return read

    def writer(self, where: str) -> Write:
        isfinite = math.isfinite

        def write(value: Any) -> float:
            try:
                if isfinite(value):
                    return float(value)
            except (TypeError, OverflowError):
                raise refused(where, "a number", value) from None
            raise CodecError("not_finite", f"{where}: must be finite, got {value}")

        return write

    @property
    def kind(self) -> str:
        return "number"

    @property
    def bound(self) -> str:
        return f"{'above ' if self.above else ''}{self.min_value:g} to {self.max_value:g}"


@dataclass(frozen=True)
class Flag(Rule):
    """True or false."""

    def reader(self, where: str) -> Read:
        def read(value: Any) -> bool:
            if value is True or value is False:
                return bool(value)
            raise refused(where, "true or false", value)

        return read

    @property
    def kind(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Side(Rule):
    """Height or width of an image."""

    def reader(self, where: str) -> Read:
        whole = Whole(1, MAX_LENGTH).reader(where)

        def read(value: Any) -> int:
            side: int = whole(value)
            if not 1 <= side <= MAX_SIDE_PX:
                check_size(side, side)  # which says why not
            return side

        return read

    @property
    def kind(self) -> str:
        return "whole number"

    @property
    def bound(self) -> str:
        return f"1 to {MAX_SIDE_PX}"


@dataclass(frozen=True)
class InFrames(Rule):
    """What does not travel in the header: `framed.py` reads and writes it. `words`: where it is instead."""

    words: str

    @property
    def kind(self) -> str:
        return self.words


def rule_of_setting(metadata: Mapping[str, Any], hint: str) -> Rule:
    """The rule of a field that a configuration file declares, by its limits and its type as it is written."""
    if isinstance(metadata["rule"], Rule):
        return metadata["rule"]
    at_least, at_most, above = metadata["at_least"], metadata["at_most"], metadata["above"]
    if hint.startswith("int"):
        return Whole(int(at_least), int(at_most))
    if hint.startswith("float"):
        return Number(float(above if at_least is None else at_least), float(at_most), above is not None)
    raise TypeError(f"no rule for a field of type {hint}")


NAME, TEXT, FLAG, SIDE, ID = Name(), Text(), Flag(), Side(), Whole()
SHORT_TEXT = Text(MAX_NAME_CHARS)
ANY_TEXT = Text(None)
