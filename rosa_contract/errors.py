"""The contract's own errors: the only ones that loading a file or decoding bytes may raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


class ContractError(ValueError):
    """What was received or configured breaks the contract. The text says what came and what was expected."""


# Why a configuration is refused. Programs compare these; the words beside them are for people and may change.
CONFIG_CAUSES = {
    "unreadable": "the file cannot be opened",
    "too_large": "the file is too long, nested too deeply, or expands to too many values",
    "syntax": "the text is not valid YAML, or JSON where that is expected",
    "wrong_version": "the file has a schema version that this program does not read",
    "duplicate_key": "a key or id occurs twice",
    "unknown_key": "no such key in this section",
    "missing": "a required key or part is not there",
    "wrong_type": "a value of another type was expected",
    "wrong_length": "a list has too many or too few values",
    "out_of_range": "a number is too small, too large or not finite",
    "unknown_name": "a name that does not exist in the file, or is not a choice of this key",
    "conflict": "values that are each valid but contradict one another",
    "invalid": "anything else; see the words",
}


@dataclass(frozen=True)
class ConfigProblem:
    """One mistake in a configuration. As text: the path, if there is one, a colon, and the words."""

    path: str  # dotted, such as pick.components.system1.slo_ms; empty: the file as a whole
    cause: str  # one of CONFIG_CAUSES
    words: str  # what came, what was expected, what to do

    def __post_init__(self) -> None:
        if self.cause not in CONFIG_CAUSES:
            raise ValueError(f"cause: expected one of {', '.join(CONFIG_CAUSES)}, got {self.cause!r}")

    def __str__(self) -> str:
        return f"{self.path}: {self.words}" if self.path else self.words


def same_place(one: str, other: str) -> bool:
    """Whether one dotted path is the other, or lies within it."""
    short, long = sorted((one, other), key=len)
    return (long.startswith(short) and long[len(short) : len(short) + 1] in ("", ".", "[")) or not short


class ConfigError(ContractError):
    """A configuration is wrong. `problems` holds every mistake that was found; `source` names the file or option."""

    def __init__(self, source: str, problems: Sequence[ConfigProblem | str], read: object = None) -> None:
        """A problem that is given as a text has the cause "invalid". `read`: what the file says, where the mistakes
        leave enough of it to look for more; a wrong value is at its default."""
        self.source, self.read = source, read
        self.problems = [
            one if isinstance(one, ConfigProblem) else ConfigProblem("", "invalid", one) for one in problems
        ]
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{source}: {count}\n" + "\n".join(f"  {problem}" for problem in self.problems))

    def with_more(self, more: Sequence[ConfigProblem]) -> ConfigError:
        """The same with mistakes of what was `read`, but for those at places that are named already."""
        known = [one.path for one in self.problems if one.cause != "unknown_key"]
        new = [one for one in more if not any(same_place(one.path, path) for path in known)]
        return ConfigError(self.source, [*self.problems, *new])


# Why bytes are refused, and what a refusal of a message says on the wire. The words beside them are for people.
CODEC_CAUSES = {
    "version_mismatch": "the peer speaks another schema version",
    "checksum_mismatch": "a header, an output or a compressed image was damaged on its way, or has no checksum",
    "not_msgpack": "a header or an output is not msgpack",
    "unexpected_message": "no such message type, or one that this peer does not send",
    "wrong_frame_count": "the message has more or fewer frames than its header says",
    "too_large": "a message, a header, an array or an image is beyond its limit",
    "bad_field": "a field of a header is missing, of the wrong type or out of range",
    "bad_array": "an array has a type, a shape or a number of bytes that it must not have",
    "bad_image": "the bytes of an image are not the image that is announced",
    "not_finite": "a number is NaN or infinite",
}


class CausedError(ContractError):
    """A broken contract with a machine-readable `cause`: a key of the class's `CAUSES`, which says what it means."""

    CAUSES: ClassVar[Mapping[str, str]] = {}

    def __init__(self, cause: str, words: str) -> None:
        if cause not in self.CAUSES:
            raise ValueError(f"cause: expected one of {', '.join(self.CAUSES)}, got {cause!r}")
        self.cause = cause
        super().__init__(words)


class CodecError(CausedError):
    """A message cannot be encoded or decoded. `cause` is one of `CODEC_CAUSES`."""

    CAUSES = CODEC_CAUSES


class VersionError(CodecError):
    """The peer speaks another schema version; the text names both."""

    def __init__(self, theirs: object, ours: int) -> None:
        self.theirs = theirs
        self.ours = ours
        words = (
            f"schema version: the peer speaks {theirs!r:.60}, this side speaks {ours}; update the older one"
        )
        super().__init__("version_mismatch", words)
