"""A shell completes what there is: commands, their options, and the choices of an option."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from rosa_server.commands.parser import parser_for
from rosa_server.completion import script

ASK = """
source /dev/stdin
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_rosa
echo "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def bash() -> str:
    return script(parser_for(), "bash")


def completed(bash: str, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    quoted = " ".join(f"'{word}'" for word in words)
    command = ["bash", "--norc", "-c", ASK.format(words=quoted)]
    ended = subprocess.run(command, input=bash, capture_output=True, text=True, timeout=300)
    assert ended.stderr == ""
    return ended.stdout.split()


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("rosa", ""), {"serve", "plan", "dashboard", "operator", "completion"}),
        (("rosa", "dash"), {"dashboard"}),
        (("rosa", "operator", ""), {"list", "decide", "stop", "release", "audit"}),
        (("rosa", "serve", "--sch"), {"--schedule"}),
        (("rosa", "serve", "factory.yaml", "--cluster", ""), {"local", "ray"}),
        (("rosa", "operator", "decide", "panda0", "--w"), {"--why"}),
        (("rosa", "completion", "b"), {"bash"}),
    ],
)
def test_it_offers_what_there_is(bash: str, words: tuple[str, ...], some: set[str]) -> None:
    assert some <= set(completed(bash, *words))


def test_it_offers_only_what_fits(bash: str) -> None:
    assert completed(bash, "rosa", "dash") == ["dashboard"]
    assert completed(bash, "rosa", "serve", "--cluster", "r") == ["ray"]
    assert "serve" not in completed(bash, "rosa", "operator", "")
    assert completed(bash, "rosa", "serve", "fact") == [], "the shell completes files"


def test_the_script_for_zsh_uses_the_same() -> None:
    zsh = script(parser_for(), "zsh")
    assert "bashcompinit" in zsh and "complete -o default -F _rosa rosa" in zsh
    if shutil.which("zsh"):
        assert subprocess.run(["zsh", "-n"], input=zsh, text=True, timeout=300).returncode == 0
