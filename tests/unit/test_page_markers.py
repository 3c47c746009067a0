"""Above every block of commands of a page stands what runs it, or why nothing does (tests/reader.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.reader import ROOT, SHELLS, blocks

PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "QUALITY_DECLARATION")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "reference"),
]
SUITES = (
    ROOT / "tests" / "system" / "examples" / "test_tutorials.py",
    *(ROOT / "tests" / "pages").glob("*.py"),
)
DONE = re.compile(r"\bdo\(\s*\"([^\"]+)\"")  # pages that readers do


def mistakes(page: Path, done: set[Path]) -> list[str]:
    """What is wrong with the comments above the blocks of a page."""
    found = []
    for comment, language, text in blocks(page):
        what, _, more = comment.partition(": ")
        first = text.partition("\n")[0]
        if what == "run" and page not in done:
            found.append(f"{first}: no suite does this page")
        elif what == "run by" and not exists(more):
            found.append(f"{first}: there is no {more}")
        elif language in SHELLS and not (what == "run" or (what in ("run by", "not run") and more)):
            found.append(f"{first}: say above what runs it, or why nothing does")
    return found


def exists(what: str) -> bool:
    """Whether there is this file, or this target of the Makefile."""
    if what.startswith("make "):
        target = what.removeprefix("make ")
        return (
            re.search(rf"^{re.escape(target)}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
            is not None
        )
    return (ROOT / what).is_file()


@pytest.fixture(scope="module")
def done() -> set[Path]:
    return {
        (ROOT / "docs" / f"{name}.md").resolve()
        for suite in SUITES
        for name in DONE.findall(suite.read_text())
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_commands_says_what_runs_it(page: Path, done: set[Path]) -> None:
    assert mistakes(page, done) == []


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("", "say above"),
        ("<!-- quickstart -->", "say above"),
        ("<!-- not run: -->", "say above"),
        ("<!-- run -->", "no suite"),
        ("<!-- run by: make nothing -->", "no make nothing"),
        ("<!-- run by: tests/test_nothing.py -->", "no tests/test_nothing.py"),
    ],
)
def test_a_block_that_nothing_runs_is_found(tmp_path: Path, comment: str, words: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{comment}\n```sh\nrosa robots\n```\n")
    [mistake] = mistakes(page, set())
    assert mistake.startswith("rosa robots") and words in mistake


@pytest.mark.parametrize("comment", ["run", "run: 1", "run by: make demo", "not run: needs a real arm"])
def test_a_block_that_says_so_is_taken(tmp_path: Path, comment: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"1. First\n\n   <!-- {comment} -->\n   ```sh\n   rosa robots\n   ```\n")
    assert mistakes(page, {page}) == []
