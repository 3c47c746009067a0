"""Ctrl-C while a program still imports ends it with 130 and without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rosa_contract.interrupt import interruptible

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0
COMMANDS = {
    "rosa plan": ["rosa_server.cli", "plan", "configs/factory.yaml", "--what-if", "robots=100000", "servers=30000"],
    "rosa check": ["rosa_server.cli", "check", "configs/factory.yaml"],
    "make demo": ["rosa_sim.demo", "--help"],
    "bring-up": ["rosa_client.bringup", "--help"],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_ctrl_c_during_the_imports_says_nothing_and_ends_with_130(command: list[str]) -> None:
    # Frozen as soon as it has loaded numpy, it gets the signal in the middle of its imports, however slow the machine.
    started = [sys.executable, "-X", "importtime", "-m", *command]
    with subprocess.Popen(
        started, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        end_s = time.monotonic() + PATIENCE_S
        for line in run.stderr:
            if line.rstrip().endswith("numpy.version"):
                break
            assert time.monotonic() < end_s, "numpy was not imported"
        run.send_signal(signal.SIGINT)
        said = [line for line in run.stderr if not line.startswith("import time:")]
        shown = run.stdout.read() if run.stdout is not None else ""
        assert run.wait(PATIENCE_S) == 130, said
    assert (said, shown) == ([], "")


def test_a_program_that_is_interrupted_while_it_works_ends_with_130() -> None:
    def program() -> int:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not interrupted")

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert interruptible(lambda: program) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, usual)


def test_a_program_that_minds_the_signal_itself_keeps_its_handler() -> None:
    seen: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        assert interruptible(lambda: lambda: (signal.raise_signal(signal.SIGINT), 7)[1]) == 7
    finally:
        signal.signal(signal.SIGINT, usual)
    assert seen == [signal.SIGINT]
