"""Ctrl-C comes at each step of `signals_wait`, to another thread, as it does where this one has it blocked."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rosa_client.bringup.supervisor import SIGNALS, signals_wait

STEPS = 7  # calls that change handlers or the mask


def pending(thread: threading.Thread) -> bool:
    """Whether a SIGINT to this thread still waits for it to be run."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    waiting = next(line for line in status.splitlines() if line.startswith("SigPnd"))
    return bool(int(waiting.split()[1], 16) >> (signal.SIGINT - 1) & 1)


@pytest.fixture
def other() -> Iterator[threading.Thread]:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield thread
    over.set()
    thread.join()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", range(STEPS))
def test_ctrl_c_is_heard_and_nothing_stays_as_it_was_meanwhile(
    step: int, after: bool, other: threading.Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def interrupted(*arguments: Any) -> Any:
            calls.append(call.__name__)
            mine = len(calls) == step + 1

            def press() -> None:
                assert other.ident is not None
                signal.pthread_kill(other.ident, signal.SIGINT)
                end_s = time.monotonic() + 30.0
                while pending(other):
                    assert time.monotonic() < end_s
                    time.sleep(0.001)
                time.sleep(0.02)  # for its handler to end

            if mine and not after:
                press()
            result = call(*arguments)
            if mine and after:
                press()
            return result

        return interrupted

    usual = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(signal, "signal", counted(signal.signal))
            patch.setattr(signal, "pthread_sigmask", counted(signal.pthread_sigmask))
            with pytest.raises(KeyboardInterrupt), signals_wait():
                pass
        assert step < len(calls) <= STEPS
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        for number, handler in usual.items():
            signal.signal(number, handler)
