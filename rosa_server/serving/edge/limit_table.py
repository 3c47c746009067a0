"""Every limit on what peers may use of a gateway, in one table, from which docs/limits.md is generated."""

from __future__ import annotations

from dataclasses import dataclass

from rosa_contract.config.gateway import Gateway
from rosa_contract.wire import codec, status
from rosa_server.serving.base import log
from rosa_server.serving.core.dispatch import core
from rosa_server.serving.core.guard.limits import Limits, rows, shown
from rosa_server.serving.core.rates import control
from rosa_server.serving.core.sessions import session
from rosa_server.serving.edge import intake, metrics, robots_socket
from rosa_server.serving.watching import hub, pictures, post, watchers

KB = 1 << 10


@dataclass(frozen=True)
class Row:
    """One limit, and what happens beyond it: a cause of being cut off, or words."""

    what: str
    value: str
    of: str
    beyond: str


def limit_rows() -> list[Row]:
    """The rows of `Limits` first, from which tests are generated; then limits of messages, sockets and files."""
    counted = [
        Row(
            row.metadata["what"],
            shown(getattr(Limits, row.name), row.metadata["unit"]),
            row.metadata["of"],
            f"`{row.metadata['cause']}`",
        )
        for row in rows()
    ]
    handshake_s = f"{robots_socket.HANDSHAKE_MS / 1000:g} s"
    send_kb = f"{robots_socket.SEND_BUFFER_BYTES // KB} KB"
    lines = f"{log.LINES_PER_S:g} per second, {log.LINES_AT_ONCE:g} burst"
    return [
        *counted,
        Row("time for the ZMTP and CURVE handshake", handshake_s, "a connection", "it is closed"),
        Row(
            "complete messages waiting to be read",
            f"{robots_socket.ROBOT_BACKLOG}",
            "a connection",
            "TCP backpressure",
        ),
        Row(
            "answers waiting in its queue",
            f"{robots_socket.UNREAD_ANSWERS}",
            "a connection",
            "`unread_answers`",
        ),
        Row("answers waiting in the kernel", send_kb, "a connection", "further answers wait in its queue"),
        Row("message", f"{Gateway.max_message_mb:g} MB (`gateway.max_message_mb`)", "a robot", "`too_large`"),
        Row("frames", f"{intake.MAX_FRAMES - 1}", "a message", "`too_large`"),
        Row("frames discarded", f"{intake.FLOOD_FRAMES}", "a message", "`bad_messages`"),
        Row("header", f"{codec.MAX_ROBOT_HEADER_BYTES // KB} KB", "a message", "`too_large`"),
        Row("entries in a list or map", f"{codec.MAX_ROBOT_ENTRIES}", "a header", "`not_msgpack`"),
        Row(
            "image",
            f"the size of its raw pixels, plus 10 % and {session.SPARE_BYTES // KB} KB",
            "a camera that the model takes",
            "`input_rejected`",
        ),
        Row(
            "CPU time for decoding its pictures",
            f"{control.DECODING_SHARE:g} s per second, {control.DECODING_BURST_S:g} s burst",
            "a robot",
            "its calls run only when no other calls wait",
        ),
        Row(
            "labels in metrics for components that do not exist", "1", "all", "they are counted as `unknown`"
        ),
        Row("health reports", f"{1 / core.REPORT_EVERY_S:g} per second", "all", "the last one is sent again"),
        Row("names in a health report", f"{core.MAX_LISTED}", "a report", "the rest are only counted"),
        Row(
            "names kept for robots that left",
            f"{session.MAX_RESERVED}",
            "all",
            "the oldest is released",
        ),
        Row("time a name is kept", f"{session.RESERVED_FOR_S:g} s", "a robot that left", "it is released"),
        Row(
            "log lines that peers can cause",
            lines,
            "a kind of line",
            "their number is in the next one (`unsaid`)",
        ),
        Row("ended calls in a robot's report", f"{status.MAX_CALLS}", "a report", "`bad_field`"),
        Row("decisions in a robot's report", f"{status.MAX_DECISIONS}", "a report", "`bad_field`"),
        Row("characters of a reason in a robot's report", f"{status.MAX_WORDS}", "a report", "`bad_field`"),
        Row(
            "reports waiting to be sent to watchers",
            f"{hub.MAX_PENDING}",
            "all",
            "the oldest are dropped and counted",
        ),
        Row("watchers", f"{watchers.MAX_WATCHERS}", "a gateway", "further watchers are not served"),
        Row(
            "messages a watcher has not read",
            f"{watchers.MAX_UNREAD}",
            "a watcher",
            "further messages are dropped and counted",
        ),
        Row(
            "robots whose pictures are watched",
            f"{pictures.MAX_LOOKS}",
            "a gateway",
            "further robots are not shown",
        ),
        Row(
            "watched pictures", f"{1 / pictures.EVERY_S:g} per second", "a robot", "the next one comes later"
        ),
        Row(
            "pictures in a message",
            f"{pictures.MAX_PICTURE_BYTES >> 20} MB",
            "a robot",
            "further cameras are left out",
        ),
        Row(
            "decisions waiting for their robot's answer", f"{post.MAX_QUESTIONS}", "a gateway", "`overloaded`"
        ),
        Row(
            "time for a robot to answer a decision",
            f"{post.ANSWER_WITHIN_S:g} s",
            "a decision",
            "`no_answer`",
        ),
        Row("connections to the metrics page", f"{metrics.MAX_READERS}", "all", "further ones wait"),
        Row(
            "time for a request to the metrics page", f"{metrics.READ_S:g} s", "a connection", "it is closed"
        ),
    ]
