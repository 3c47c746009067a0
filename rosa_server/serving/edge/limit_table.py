"""Every limit of what peers may take of a gateway, in one table: docs/limits.md is made of it."""

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
    """Those of `Limits` first, whose tests are made of them; then those of single messages, sockets and files."""
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
    lines = f"{log.LINES_PER_S:g} per second, {log.LINES_AT_ONCE:g} at once"
    return [
        *counted,
        Row("time for ZMTP's and CURVE's handshake", handshake_s, "a connection", "it ends"),
        Row(
            "whole messages that wait to be read",
            f"{robots_socket.ROBOT_BACKLOG}",
            "a connection",
            "TCP pushes back",
        ),
        Row(
            "answers that wait in its queue",
            f"{robots_socket.UNREAD_ANSWERS}",
            "a connection",
            "`unread_answers`",
        ),
        Row("answers that wait in the kernel", send_kb, "a connection", "they wait in its queue"),
        Row("message", f"{Gateway.max_message_mb:g} MB (`gateway.max_message_mb`)", "a robot", "`too_large`"),
        Row("frames", f"{intake.MAX_FRAMES - 1}", "a message", "`too_large`"),
        Row("frames thrown away", f"{intake.FLOOD_FRAMES}", "a message", "`bad_messages`"),
        Row("header", f"{codec.MAX_ROBOT_HEADER_BYTES // KB} KB", "a message", "`too_large`"),
        Row("entries of a list or map", f"{codec.MAX_ROBOT_ENTRIES}", "a header", "`not_msgpack`"),
        Row(
            "image",
            f"its raw pixels, a tenth and {session.SPARE_BYTES // KB} KB",
            "a camera that the model takes",
            "`input_rejected`",
        ),
        Row(
            "CPU time of decoding its pictures",
            f"{control.DECODING_SHARE:g} s per second, {control.DECODING_BURST_S:g} s at once",
            "a robot",
            "its calls run when nothing else waits",
        ),
        Row("components that robots make up, in metrics", "1", "all", "they are counted as `unknown`"),
        Row("health reports", f"{1 / core.REPORT_EVERY_S:g} per second", "all", "the same is sent again"),
        Row("names in a health report", f"{core.MAX_LISTED}", "a report", "the others are counted"),
        Row(
            "names without their robot",
            f"{session.MAX_RESERVED}",
            "robots that left",
            "the earliest is free",
        ),
        Row("time that a name is kept", f"{session.RESERVED_FOR_S:g} s", "a robot that left", "it is free"),
        Row("log lines that peers can cause", lines, "a kind of line", "counted in the next one (`unsaid`)"),
        Row("calls that ended, in a report of a robot", f"{status.MAX_CALLS}", "a report", "`bad_field`"),
        Row("decisions, in a report of a robot", f"{status.MAX_DECISIONS}", "a report", "`bad_field`"),
        Row("characters of a reason in a report", f"{status.MAX_WORDS}", "a report", "`bad_field`"),
        Row(
            "reports that wait to be told to watchers",
            f"{hub.MAX_PENDING}",
            "all",
            "the earliest are lost, and counted",
        ),
        Row("watchers", f"{watchers.MAX_WATCHERS}", "a gateway", "they hear nothing"),
        Row(
            "messages that a watcher has not read",
            f"{watchers.MAX_UNREAD}",
            "a watcher",
            "they are lost, and counted",
        ),
        Row(
            "robots that are looked at through their cameras",
            f"{pictures.MAX_LOOKS}",
            "a gateway",
            "they are not shown",
        ),
        Row(
            "pictures of a robot", f"{1 / pictures.EVERY_S:g} per second", "a robot", "the next one is later"
        ),
        Row(
            "pictures in a message",
            f"{pictures.MAX_PICTURE_BYTES >> 20} MB",
            "a robot",
            "further cameras are left out",
        ),
        Row("decisions that wait for their robot", f"{post.MAX_QUESTIONS}", "a gateway", "`overloaded`"),
        Row(
            "time for a robot to answer a decision",
            f"{post.ANSWER_WITHIN_S:g} s",
            "a decision",
            "`no_answer`",
        ),
        Row("connections of the metrics page", f"{metrics.MAX_READERS}", "all", "they wait"),
        Row("time for a request of the metrics page", f"{metrics.READ_S:g} s", "a connection", "it ends"),
    ]
