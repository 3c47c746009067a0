"""The commands that pages tell a reader to type, and what is wrong with them: no such command, option or file."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`((?:rosa|make|ros2 launch rosa_client|python -m rosa_\w+[\w.]*) [^`\n]+)`")
SHELLS = {"sh", "bash", "console", "shell"}
# What may stand before the command that counts.
BEFORE = {"sudo", "exec", "nice", "timeout", "watch", "command"}
ENDS = {"&&", "||", "|", ";", "&"}
REDIRECTIONS = {">", ">>", "<"}  # a file follows
HISTORY = {"log.md", "CHANGELOG.md"}
LAUNCHED = {"pick_place.launch.py", "fleet.launch.py"}


class Mistake(Exception):
    """A command line that could not work, in words."""


def pages() -> list[Path]:
    """Every page for readers."""
    return [
        *(
            ROOT / name
            for name in (
                "README.md",
                "CONTRIBUTING.md",
                "CHANGELOG.md",
                "SECURITY.md",
                "QUALITY_DECLARATION.md",
            )
        ),
        *sorted(ROOT.glob("*/README.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    ]


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(language, text) of every code block of a page."""
    for _, language, code in BLOCK.findall(text):
        yield language, code


def commands(text: str) -> Iterator[list[str]]:
    """The words of every command in the shell blocks of a page, each without its comment, pipes and redirections."""
    for language, code in blocks(text):
        if language in SHELLS:
            prompted = any(line.startswith("$ ") for line in code.splitlines())
            for line in code.replace("\\\n", " ").splitlines():
                if prompted and not line.startswith("$ "):
                    continue  # what the command printed
                yield from _commands_of_line(line.removeprefix("$ "))


def _commands_of_line(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        words = list(lexer)
    except ValueError as error:
        raise Mistake(f"{line.strip()}: {error}") from None
    part: list[str] = []
    into_file = False
    for word in [*words, ";"]:
        if word in REDIRECTIONS:
            into_file = True
        elif into_file:
            into_file = False
        elif word in ENDS:
            if part:
                yield part
            part = []
        else:
            part.append(word)


def mentions(text: str) -> Iterator[str]:
    """Commands in the middle of a sentence, between backticks."""
    yield from INLINE.findall(BLOCK.sub("", text))


def check(words: list[str]) -> None:
    """Raises `Mistake` for a command of ROSA that does not exist, or that would not take these words."""
    words = _without_what_comes_before(words)
    if not words:
        return
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program == "rosa":
        _check_rosa(rest)
    elif program == "make":
        _check_make(rest)
    elif words[:3] == ["ros2", "launch", "rosa_client"]:
        _check_launch(words[3], words[4:])
    elif program in ("python", "python3", "python3.11"):
        _check_python(rest)


def check_mention(text: str) -> None:
    """The same for half a command, as it stands in a sentence: its name and its options are looked at, nothing else."""
    try:
        words = shlex.split(text.replace("[", " ").replace("]", " "))
    except ValueError as error:
        raise Mistake(f"{text}: {error}") from None
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    if words[0] == "rosa":
        parser = _rosa()
        for word in words[1:]:
            if word.startswith("-"):
                continue
            inner = _subparsers(parser)
            if inner is None or "..." in word or word.isupper():
                break
            if word not in inner:
                raise Mistake(f"{text}: no such command: {word}; there are {', '.join(inner)}")
            parser = inner[word]
        known = {option for action in parser._actions for option in action.option_strings}
        for option in options:
            if option.rstrip(",.") not in known:
                raise Mistake(f"{text}: no such option: {option}; there are {', '.join(sorted(known))}")
    elif words[0] == "make":
        _check_make([word for word in words[1:] if not word.startswith(("...", "<"))])
    elif words[0] == "python":
        _check_python(words[1:])


def _without_what_comes_before(words: list[str]) -> list[str]:
    while words:
        if "=" in words[0] and re.match(r"^[A-Za-z_]\w*=", words[0]):
            words = words[1:]
        elif words[0] in BEFORE:
            words = words[1:]
            while words and (words[0].startswith("-") or words[0].isdigit()):
                words = words[2:] if words[0] == "-u" else words[1:]  # a user's name follows
        else:
            break
    return words


@cache
def _rosa() -> argparse.ArgumentParser:
    from rosa_server.commands.parser import parser_for

    parser = parser_for()
    _raise_on_error(parser)
    return parser


def _raise_on_error(parser: argparse.ArgumentParser) -> None:
    def refuse(message: str) -> NoReturn:
        raise Mistake(message)

    parser.error = refuse  # type: ignore[method-assign]
    for inner in (_subparsers(parser) or {}).values():
        _raise_on_error(inner)


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser] | None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return None


def _check_rosa(words: list[str]) -> None:
    if set(words) & {"-h", "--help", "--version"}:
        words = [word for word in words if word not in ("-h", "--help", "--version")]
        if words:
            check_mention(f"rosa {' '.join(words)}")
        return
    try:
        _rosa().parse_args(words)
    except Mistake as error:
        raise Mistake(f"rosa {' '.join(words)}: {error}") from None
    if words[:1] == ["serve"] and words[1:] and (ROOT / words[1]).is_file():
        _check_served(words[1], planned="--schedule" in words)


@cache
def _check_served(name: str, planned: bool) -> None:
    """A file of ours has all that a server needs; those of the paper are for planning."""
    from rosa_contract.config.factory import load_factory
    from rosa_contract.errors import ConfigError
    from rosa_server.serving.served import check_served

    try:
        check_served(load_factory(ROOT / name), name, planned=planned)
    except ConfigError as error:
        raise Mistake(f"rosa serve {name}: {error}") from None


@cache
def _makefile() -> tuple[set[str], set[str]]:
    """(targets, variables) that a reader may name."""
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):.*##", text, re.MULTILINE))
    return targets, set(re.findall(r"^([A-Z_]+) \??:?=", text, re.MULTILINE)) | {"POLICY"}


def _check_make(words: list[str]) -> None:
    targets, variables = _makefile()
    line = f"make {' '.join(words)}"
    for word in words:
        name, is_set, value = word.partition("=")
        if is_set and name not in variables:
            raise Mistake(f"{line}: the Makefile has no variable {name}")
        if not is_set and name.rstrip(",.") not in targets and not name.startswith("-"):
            raise Mistake(f"{line}: the Makefile has no target {name}")
        if name == "ARGS" and words[0] == "demo":
            _known_to_source(line, value.split(), "rosa_sim.demo")


@cache
def _launch_arguments() -> set[str]:
    from rosa_client.bringup.arguments import ENTRIES

    return {*ENTRIES, "rviz"}


def _check_launch(file: str, words: list[str]) -> None:
    line = f"ros2 launch rosa_client {file} {' '.join(words)}"
    if file not in LAUNCHED or not (ROOT / "launch" / file).is_file():
        raise Mistake(f"{line}: no such launch file")
    for word in words:
        name, given, _ = word.partition(":=")
        if given and name not in _launch_arguments():
            raise Mistake(f"{line}: no such argument: {name}")


def _check_python(words: list[str]) -> None:
    line = f"python {' '.join(words)}"
    if words[:1] == ["-m"] and len(words) > 1:
        module = words[1]
        if module.split(".")[0] in ("rosa_contract", "rosa_client", "rosa_server", "rosa_sim"):
            if importlib.util.find_spec(module) is None:
                raise Mistake(f"{line}: no such module")
            if module == "rosa_server.cli":
                _check_rosa(words[2:])
            elif module == "rosa_client.bringup":
                _check_bringup(line, words[2:])
            else:
                _known_to_source(line, words[2:], module)
    elif words and words[0].endswith(".py") and "/" in words[0]:
        if not (ROOT / words[0]).is_file():
            raise Mistake(f"{line}: no such file")
        if "-m" in words:
            _check_python(words[words.index("-m") :])
        else:
            source = (ROOT / words[0]).read_text()
            _known(line, words[1:], source)


def _check_bringup(line: str, words: list[str]) -> None:
    for word in words:
        name, given, _ = word.partition(":=")
        if given and name not in _launch_arguments():
            raise Mistake(f"{line}: no such argument: {name}")


def _known_to_source(line: str, words: list[str], module: str) -> None:
    """Options of a program that is not `rosa`: its files name them."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    origin = Path(spec.origin)
    files = [*origin.parent.rglob("*.py")] if origin.name == "__init__.py" else [origin]
    _known(line, words, "\n".join(file.read_text() for file in files))


def _known(line: str, words: list[str], source: str) -> None:
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("--") and f'"{option}"' not in source:
            raise Mistake(f"{line}: no such option: {option}")


def mistakes(page: Path) -> list[str]:
    """What is wrong with the commands of a page."""
    text = page.read_text()
    found: list[str] = []
    try:
        for words in commands(text):
            try:
                check(words)
            except Mistake as error:
                found.append(str(error))
    except Mistake as error:
        found.append(str(error))
    # The log speaks of what was, also of commands that did not stay.
    for mention in mentions(text) if page.name not in HISTORY else ():
        try:
            check_mention(mention)
        except Mistake as error:
            found.append(str(error))
    return found


def main() -> int:
    wrong = [f"{page.relative_to(ROOT)}: {one}" for page in pages() for one in mistakes(page)]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
