"""What one robot has said in the last minutes, kept as it came: it is read when somebody looks at the robot."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_contract.wire.status import Status

KEPT_S = 180.0
MAX_BYTES = 64 << 20  # of all robots together
MIN_ROBOT_BYTES = 16 << 10
GAP_S = 4.0  # without a report; a robot says something every second
MAX_GAPS = 90
SILENT = "silent"  # the state of a robot of which nothing is heard


class Memory:
    """The reports of one robot that hold news, as (when they came, bytes)."""

    def __init__(self) -> None:
        self._frames: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._heard_s: float | None = None
        self._gaps: deque[float] = deque(maxlen=MAX_GAPS)  # when the last report before each came

    def hear(self, now_s: float) -> bool:
        """A report has come. True where it is the first after a gap."""
        before, self._heard_s = self._heard_s, now_s
        if before is None or now_s - before <= GAP_S:
            return False
        self._gaps.append(before)
        return True

    def gaps(self, now_s: float) -> list[float]:
        """When each gap began, the one that lasts included; the last report before it had come then."""
        lasts = self._heard_s is not None and now_s - self._heard_s > GAP_S
        return [*self._gaps, *([self._heard_s] if lasts and self._heard_s is not None else [])]

    def keep(self, now_s: float, frame: bytes, max_bytes: int) -> None:
        self._frames.append((now_s, frame))
        self._bytes += len(frame)
        while self._frames and (self._bytes > max_bytes or now_s - self._frames[0][0] > KEPT_S):
            self._bytes -= len(self._frames.popleft()[1])

    def reports(self, now_s: float, since_s: float = -1.0) -> list[tuple[float, Status]]:
        """(when it came, report) of what came after `since_s`; reports that cannot be read are left out."""
        found = []
        for at_s, frame in list(self._frames):
            if at_s > since_s and now_s - at_s <= KEPT_S and (report := report_in(frame)) is not None:
                found.append((at_s, report))
        return found


def report_in(frame: bytes) -> Status | None:
    """The report in a frame that a robot has sent; None where it is none."""
    try:
        header = codec.read_robot_header([frame])
        report = codec.decode_robot(header, [frame])
    except CodecError:
        return None
    return report if isinstance(report, Status) else None


def timeline(
    reports: Sequence[tuple[float, Status]], now_s: float, gaps: Sequence[float] = ()
) -> dict[str, Any]:
    """The last minutes for the page, each with its age in s: calls, decisions of the core and of persons, states.

    `gaps`: when nothing was heard any more, until the next report.
    """
    calls, decisions, audits, states = [], [], [], []
    last, ahead = "", deque(sorted(gaps))
    for at_s, report in reports:
        while ahead and ahead[0] < at_s:
            states.append([min(now_s - ahead.popleft(), KEPT_S), SILENT])
            last = SILENT
        ago_s = now_s - at_s
        slo_ms = {one.name: one.slo_ms for one in report.components}
        calls += [
            [ago_s + c.age_ms / 1000, c.component, c.ending, c.duration_ms, slo_ms.get(c.component, 0.0)]
            for c in report.calls
        ]
        decisions += [
            [ago_s + d.age_ms / 1000, d.action, d.cause, d.reason, d.component] for d in report.decisions
        ]
        audits += [
            [ago_s + a.age_ms / 1000, a.choice, a.decided_by, a.why, a.accepted, a.reason, a.alert_id]
            for a in report.audits
        ]
        if report.state != last:
            states.append([ago_s, report.state])
            last = report.state
    states += [[min(now_s - began_s, KEPT_S), SILENT] for began_s in ahead]
    return {"calls": calls, "decisions": decisions, "audits": audits, "states": states}
