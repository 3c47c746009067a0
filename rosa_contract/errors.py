"""The contract's own errors: the only ones that loading a file or decoding bytes may raise."""

from __future__ import annotations


class ContractError(ValueError):
    """Something received or configured breaks the contract; the text says what came and what was expected."""


class ConfigError(ContractError):
    """A configuration file is wrong. `problems` holds one line per mistake, each starting with its dotted path."""

    def __init__(self, source: str, problems: list[str]) -> None:
        self.source = source
        self.problems = problems
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{source}: {count}\n" + "\n".join(f"  {line}" for line in problems))


class CodecError(ContractError):
    """A message cannot be encoded or decoded."""


class VersionError(CodecError):
    """The peer speaks another schema version; the text names both."""

    def __init__(self, theirs: object, ours: int) -> None:
        self.theirs = theirs
        self.ours = ours
        super().__init__(
            f"schema version: the peer speaks {theirs!r}, this side speaks {ours}; update the older one"
        )
