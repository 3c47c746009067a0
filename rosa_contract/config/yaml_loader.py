"""PyYAML's safe loader with the rules of YAML 1.2: its core schema (chapter 10.3), and no duplicate keys.

PyYAML follows YAML 1.1, where `6:40` is 400 (base 60), `no` is false, `010` is 8 and `2026-11-23` is a date, while
`1e3` is text. Here they are text, text, ten, text and a thousand. The merge key `<<` of 1.1 is kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from typing import Any

import yaml

try:
    from yaml import CSafeLoader
except ImportError:  # a PyYAML without libyaml
    CSafeLoader = yaml.SafeLoader  # type: ignore[misc,assignment] # a class in place of another, with the same calls

TAG = "tag:yaml.org,2002:"
MERGE = f"{TAG}merge"
BOOLEANS = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
NULLS = ("", "~", "null", "Null", "NULL")
INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
NAN = re.compile(r"\.(?:nan|NaN|NAN)")


class DuplicateKey(yaml.constructor.ConstructorError):
    """A key that occurs twice in a mapping."""


# What libyaml, which is several times faster, and PyYAML's own parser read alike: printable ASCII without tabs,
# directives, anchors, tags, escapes, block scalars and question marks (in a list, one of both ends plain text there)
# but in a quoted value. libyaml's binding calls itself for each level, so there are not too many.
ALIKE = re.compile(rb"(?!%)(?:[ -~]|\n(?!%))*")
UNLIKE = re.compile(rb"\\|(?:^|[ ,\[{:])[&*!]|[|>][-+0-9]*[ ]*(?:#.*)?$", re.MULTILINE)
# As a prompt has them: `prompt: "is it done?"`. It may also stand in a comment, or within single quotes, which it does
# not end. Its first quote may end a value, but not before a letter: that is a mistake to both.
ASKED = re.compile(rb""": "[A-Za-z0-9][^"'\\\n]*\"""")
OPENS = re.compile(rb"[\[{]|- ")
MAX_OPENED = 5_000


def is_plain(raw: bytes | str) -> bool:
    """Whether `QuickLoader` may read it: where that finds no mistake, `Loader` finds the same values."""
    data = raw if isinstance(raw, bytes) else raw.encode(errors="surrogatepass")
    if not ALIKE.fullmatch(data) or UNLIKE.search(data):
        return False
    if b"?" in data and b"?" in ASKED.sub(b"", data):
        return False
    return sum(1 for _ in OPENS.finditer(data)) <= MAX_OPENED


class Loader(yaml.SafeLoader):
    """Nothing but text, numbers, booleans, null, lists and mappings; any other tag is an error."""

    def construct_core_scalar(self, node: yaml.ScalarNode) -> Any:
        """The value of a scalar whose tag is one of the core schema."""
        text, kind = str(self.construct_scalar(node)), node.tag.removeprefix(TAG)
        if kind == "bool" and text in BOOLEANS:
            return BOOLEANS[text]
        if kind == "null" and text in NULLS:
            return None
        if kind == "int" and INTEGER.fullmatch(text):
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        if kind == "float" and (FLOAT.fullmatch(text) or INTEGER.fullmatch(text)):
            return float(text)
        if kind == "float" and INFINITE.fullmatch(text):
            return -math.inf if text.startswith("-") else math.inf
        if kind == "float" and NAN.fullmatch(text):
            return math.nan
        raise yaml.constructor.ConstructorError(
            problem=f"{text!r} is not a valid {kind}", problem_mark=node.start_mark
        )


# PyYAML chooses by the first character of a plain scalar; here each is tried against all of these.
Loader.yaml_implicit_resolvers = {
    None: [
        (f"{TAG}bool", re.compile(f"(?:{'|'.join(BOOLEANS)})\\Z")),
        (f"{TAG}null", re.compile(r"(?:~|null|Null|NULL|)\Z")),
        (f"{TAG}int", re.compile(f"(?:{INTEGER.pattern})\\Z")),
        (f"{TAG}float", re.compile(f"(?:{FLOAT.pattern}|{INFINITE.pattern}|{NAN.pattern})\\Z")),
        (MERGE, re.compile(r"<<\Z")),
    ]
}
Loader.yaml_constructors = {
    **{f"{TAG}{kind}": Loader.construct_core_scalar for kind in ("bool", "null", "int", "float")},
    f"{TAG}str": Loader.construct_yaml_str,
    f"{TAG}seq": Loader.construct_yaml_seq,
    f"{TAG}map": Loader.construct_yaml_map,
    None: Loader.construct_undefined,
}


class QuickLoader(CSafeLoader):
    """Reads those documents of which `is_plain` is true, by the same rules."""

    yaml_implicit_resolvers = Loader.yaml_implicit_resolvers
    yaml_constructors = Loader.yaml_constructors


def check_keys(loader: Loader | QuickLoader, node: yaml.MappingNode) -> None:
    """YAML forbids the same key twice, however it is written; PyYAML silently keeps the last.

    To be asked before anything is made of a document: PyYAML then writes into a mapping the keys that it merges.
    """
    seen: set[Any] = set()
    for key_node, _ in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            continue
        key = "<<" if key_node.tag == MERGE else loader.construct_object(key_node)
        if not isinstance(key, Hashable):  # by its tag; PyYAML says so later
            continue
        for one in (key, str(key_node.value)):
            if one in seen and not (isinstance(one, float) and math.isnan(one)):
                raise DuplicateKey(problem=f"duplicate key {key!r}", problem_mark=key_node.start_mark)
        seen |= {key, str(key_node.value)}
