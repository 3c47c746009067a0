"""A demo whose answers come late and which is interrupted while its video renders: two findings show in it."""

from __future__ import annotations

import signal
from functools import cache
from pathlib import Path

from attempts.attempt import Checkout, Happened, Ran, until
from attempts.robots import DEMO, DOMAIN, cell_file, in_a_folder

LONGEST_S = 300.0


@cache
def late_demo(checkout: Checkout) -> tuple[Ran, str]:
    """One episode whose answers come late, and Ctrl-C as soon as its video renders; also the robot's own log."""
    ran: list[Ran] = []
    logs: list[str] = []

    def tried(checkout: Checkout, folder: Path) -> Happened:
        config, out, log = cell_file(checkout, folder), folder / "runs", folder / "demo.log"
        words = ("--episodes", "1", "--fault", "worker_slow", "--config", str(config), "--out", str(out))
        with checkout.running(checkout.command(DEMO, *words), log, DOMAIN) as process:
            until(lambda: process.poll() is not None or list(out.glob("*/*.mp4")), LONGEST_S)
            renders = process.poll() is None
            process.send_signal(signal.SIGINT)
            until(lambda: process.poll() is not None, 60.0)
            status = process.poll()
        said = checkout.plain(log.read_text(errors="replace"), folder)
        ran.append(Ran(status if renders else None, said, 0.0))
        logs.append("".join(path.read_text() for path in out.glob("*/logs/*runtime_node.log")))
        return "", True

    in_a_folder(tried)(checkout)
    return ran[0], logs[0]
