"""The contract's own errors: the only ones that loading a file or decoding bytes may raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


class ContractError(ValueError):
    """Input or configuration breaks the contract. The text says what was found and what was expected."""


# Why a configuration is refused. Programs compare these; the words beside them are for people and may change.
CONFIG_CAUSES = {
    "unreadable": "the file cannot be opened",
    "too_large": "the file is too long, nested too deeply, or expands to too many values",
    "syntax": "the text is not valid YAML (or JSON, where that is expected)",
    "wrong_version": "this program does not support the file's schema version",
    "duplicate_key": "a key or id appears twice",
    "unknown_key": "the section has no such key",
    "missing": "a required key or part is missing",
    "wrong_type": "a value has the wrong type",
    "wrong_length": "a list has too many or too few values",
    "out_of_range": "a number is too small, too large or not finite",
    "unknown_name": "a name that matches nothing in the file, or none of the key's choices",
    "conflict": "values that are valid on their own contradict each other",
    "invalid": "anything else; see the message",
}


@dataclass(frozen=True)
class ConfigProblem:
    """One mistake in a configuration. `str()` gives "path: words", or only the words if there is no path."""

    path: str  # dotted, such as pick.components.system1.slo_ms; empty: the whole file
    cause: str  # one of CONFIG_CAUSES
    words: str  # what was found, what was expected, and what to do

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
    """A configuration is invalid. `problems` lists every mistake found; `source` names the file or option."""

    def __init__(self, source: str, problems: Sequence[ConfigProblem | str], read: object = None) -> None:
        """`problems`: a plain string becomes a problem with the cause "invalid". `read`: the parsed content, if enough
        of the file is valid to check further; invalid values are replaced by their defaults.
        """
        self.source, self.read = source, read
        self.problems = [
            one if isinstance(one, ConfigProblem) else ConfigProblem("", "invalid", one) for one in problems
        ]
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{source}: {count}\n" + "\n".join(f"  {problem}" for problem in self.problems))

    def with_more(self, more: Sequence[ConfigProblem]) -> ConfigError:
        """A copy with further problems of the `read` content added, except at paths already reported."""
        known = [one.path for one in self.problems if one.cause != "unknown_key"]
        new = [one for one in more if not any(same_place(one.path, path) for path in known)]
        return ConfigError(self.source, [*self.problems, *new])


# Why bytes are refused, and what a refusal of a message says on the wire. The words beside them are for people.
CODEC_CAUSES = {
    "version_mismatch": "the peer uses another schema version",
    "checksum_mismatch": "a header, an output or a compressed image was corrupted in transit or has no checksum",
    "not_msgpack": "a header or an output is not valid MessagePack",
    "unexpected_message": "the message type is unknown, or this peer must not send it",
    "wrong_frame_count": "the message has more or fewer frames than its header says",
    "too_large": "a message, header, array or image exceeds its size limit",
    "bad_field": "a header field is missing, has the wrong type or is out of range",
    "bad_array": "an array has an invalid type, shape or number of bytes",
    "bad_image": "the image data does not match its announced encoding or size",
    "not_finite": "a number is NaN or infinite",
}


class CausedError(ContractError):
    """A broken contract with a machine-readable `cause`, one of the keys of the class's `CAUSES`."""

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
