"""The tree of another commit, to measure this one against it in one run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks import ROOT

COMPILED = "compiled"  # instead of a commit: this tree, with the modules of `rosa-compiled` compiled


def tree_of(commit: str, stack: ExitStack) -> Path:
    """The files of a commit, in a folder that goes with `stack`. Raises `SystemExit` for one that is not there."""
    if commit == COMPILED:
        command = [sys.executable, str(ROOT / "scripts" / "compiled.py"), "--serving"]
        built = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if built.returncode:
            raise SystemExit("nothing was compiled")
        return Path(built.stdout.strip())
    tree = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "tree"
    made = subprocess.run(
        ["git", "worktree", "add", "--detach", str(tree), commit], cwd=ROOT, capture_output=True, text=True
    )
    if made.returncode:
        raise SystemExit(f"no tree of {commit!r}: {made.stderr.strip()}")
    remove = ["git", "worktree", "remove", "--force", str(tree)]
    stack.callback(subprocess.run, remove, cwd=ROOT, check=True, capture_output=True)
    return tree
