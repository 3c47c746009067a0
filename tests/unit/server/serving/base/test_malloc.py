"""When freed memory is handed back to the kernel."""

from __future__ import annotations

from rosa_server.serving.base.malloc import LOOK_EVERY_S, MAX_WAIT_S, WORTH_BYTES, Peaks, resident_bytes


class Process:
    """Its memory, of which a part can be freed."""

    def __init__(self) -> None:
        self.used, self.freed, self.trims, self.now_s = 50 << 20, 0, 0, 0.0
        self.peaks = Peaks(lambda: self.used + self.freed, self.trim)

    def trim(self) -> None:
        self.freed = 0
        self.trims += 1

    def wait(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 1.0
            self.peaks.look(self.now_s)


def test_a_steady_process_is_left_alone_and_a_peak_is_handed_back() -> None:
    process = Process()
    process.freed = 20 << 20
    process.wait(100.0)
    assert process.trims == 0, "what it has from the beginning is its own"
    process.freed += WORTH_BYTES - 1
    process.wait(100.0)
    assert process.trims == 0
    process.freed += 100 << 20
    process.wait(LOOK_EVERY_S + 1)
    assert (process.trims, process.freed) == (1, 0)


def test_what_is_in_use_again_at_once_is_trimmed_seldom() -> None:
    process = Process()
    process.wait(20.0)
    for _ in range(3600):
        process.freed = 100 << 20
        process.wait(1.0)
    assert process.trims <= 3600 / MAX_WAIT_S + 4
    process.wait(MAX_WAIT_S)
    assert process.freed == 0


def test_what_was_in_use_at_the_last_trim_is_handed_back_as_well() -> None:
    process = Process()
    process.wait(20.0)
    process.used += 30 << 20  # as an attack does
    process.wait(LOOK_EVERY_S + 1)
    process.used, process.freed = (
        process.used - (30 << 20),
        30 << 20,
    )  # which is over, and the kernel sees no change
    process.wait(3 * LOOK_EVERY_S)
    assert process.freed == 0
    trims = process.trims
    process.wait(1000.0)
    assert process.trims == trims, "once"


def test_this_process_has_memory() -> None:
    assert resident_bytes() > 1 << 20
