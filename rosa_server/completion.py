"""`rosa completion`: a script that completes commands, options and choices in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

HEAD = """# Completion of `rosa`, made by `rosa completion {shell}`. Make it again after an upgrade.
"""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"
BASH = """_rosa() {{
  local path="rosa" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
{paths}
    esac
  done
  local before="${{COMP_WORDS[COMP_CWORD-1]}}" now="${{COMP_WORDS[COMP_CWORD]}}" words=""
  case "$path:$before" in
{values}
    *) case "$path" in
{options}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$now"))
}}
complete -o default -F _rosa rosa
"""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="print a shell completion script",
        description="Print a shell script that completes commands, options and choices. For bash: rosa completion"
        " bash > ~/.local/share/bash-completion/completions/rosa. For zsh: rosa completion zsh >>"
        " ~/.zshrc. File names are completed as usual.",
    )
    parser.add_argument("shell", choices=("bash", "zsh"), help="shell to complete in")
    return parser


def main(arguments: argparse.Namespace) -> int:
    from rosa_server.commands.parser import parser_for

    print(script(parser_for(), arguments.shell), end="")
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script. Where nothing else fits, the shell completes file names."""
    paths, values, options = [], [], []
    for path, one in _all(parser, "rosa"):
        inner = _inner(one)
        paths += [f'      "{path} {name}") path="{path} {name}" ;;' for name in inner]
        words = list(inner)
        for action in one._actions:
            words += [option for option in action.option_strings if option.startswith("--")]
            if action.choices and not isinstance(action, argparse._SubParsersAction):
                choices = " ".join(map(str, action.choices))
                if action.option_strings:
                    before = "|".join(f'"{path}:{option}"' for option in action.option_strings)
                    values.append(f'    {before}) words="{choices}" ;;')
                else:
                    words.append(choices)
        options.append(f'      "{path}") words="{" ".join(words)}" ;;')
    told = BASH.format(paths="\n".join(paths), values="\n".join(values), options="\n".join(options))
    return HEAD.format(shell=shell) + (ZSH if shell == "zsh" else "") + told


def _inner(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _all(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield path, parser
    for name, one in _inner(parser).items():
        yield from _all(one, f"{path} {name}")
