"""The dashboard with 1,000 robots that report ten times a second: its share of a core, the page's frames per second.

    python -m benchmarks.fleet.dashboard [--robots 1000] [--hz 10] [--seconds 30]

A process in the gateway's place tells what a gateway tells of such a fleet: every report of every robot, its own view
of each robot once a second, its state twice a second. `rosa dashboard` runs as a user starts it, and headless Chromium
shows its page. Frames are those that the page could draw (requestAnimationFrame), without a graphics card.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import psutil
import zmq

from benchmarks import RESULTS
from benchmarks.conclude import print_aims, write
from rosa_contract.wire import codec
from rosa_contract.wire.packing import pack
from rosa_contract.wire.status import HAS_NEWS, ComponentStatus, EndedCall, Status
from rosa_server.serving.watching.hub import ABOUT, MAX_REPORTS, ROBOTS, SLICE, STATE, STATUS, VERSION
from tests.system.dashboard.page import MISSING, Browser, browser_is_here, dashboard

MAX_CORE_SHARE, MIN_FPS = 0.20, 30.0
WARM_UP_S = 8.0
ACTIONS_HZ = 2.5
FRAMES = (
    "const done = arguments[arguments.length - 1], end = performance.now() + arguments[0]; let frames = 0;"
    "requestAnimationFrame(function next(now) {"
    " frames++; if (now < end) requestAnimationFrame(next); else done(frames); });"
)


def reports(robots: int, hz: float) -> list[list[tuple[int, bytes]]]:
    """What each robot says in turn, over one second, and what it has: a call has ended in some of them."""
    found = []
    for number in range(robots):
        of = []
        for turn in range(round(hz)):
            acted = int((turn + 1) * ACTIONS_HZ / hz) > int(turn * ACTIONS_HZ / hz)
            done = 100 + turn
            components = (
                ComponentStatus("system1", 500.0, 80.0 + turn, 140.0, done, done, 0, 0, 0),
                ComponentStatus("monitor", 1000.0, 60.0 + turn, 90.0, done, done, 0, 0, 0),
            )
            calls = (EndedCall("system1", done, "in_time", 80.0 + turn, 20.0),) if acted else ()
            state = "executing" if (turn + number) % 4 else "inferring"
            [frame] = codec.encode(Status(state, "", True, 1 + turn, 1, False, components, None, calls))
            of.append((HAS_NEWS if calls else 0, bytes(frame)))
        found.append(of)
    return found


def told_of(robots: int, at_s: float, actions: int) -> dict[bytes, list[dict[str, Any]]]:
    """What the gateway itself says, by topic."""
    names = [f"robot{number:04}" for number in range(robots)]
    server = {
        "id": "policy/0",
        "model": "policy",
        "queue": "policy",
        "standby": False,
        "epoch": 1,
        "workers": 8,
        "wanted": 8,
        "streams": robots,
        "waiting": 3,
        "oldest_ms": 12.0,
        "batches": actions // 8,
        "calls": actions,
        "filled": actions,
        "room": actions,
        "busy_ms": actions * 4.0,
    }
    state = {
        "v": VERSION,
        "at_s": at_s,
        "wall_s": time.time(),
        "ready": True,
        "robots": robots,
        "actions": actions,
        "tasks": {"done": actions // 100},
        "answers": {"ok": actions},
        "refused": {},
        "dropped": 0,
        "epoch": 1,
        "servers": [{**server, "id": f"policy/{number}"} for number in range(8)],
    }
    each = [
        [
            name,
            "pick",
            "pick 1",
            0.1,
            True,
            [["system1", 500.0, actions, actions, 380.0, 300.0]],
            {"system1": "policy"},
        ]
        for name in names
    ]
    rounds = [
        {"v": VERSION, "at_s": at_s, "robots": each[first : first + SLICE]}
        for first in range(0, robots, SLICE)
    ]
    about = {
        "v": VERSION,
        "tasks": {"pick": {"system1": ["policy", 500.0, 2.5]}},
        "source": "benchmark",
        "endpoint": "",
    }
    return {STATE: [state], ROBOTS: rounds, ABOUT: [about]}


def gateway(endpoint: str, robots: int, hz: float, stop: Event, sent: Any) -> None:
    """Tells whoever watches, evenly over time. `sent`: how many reports went out, in a shared number."""
    frames = reports(robots, hz)
    names = [f"robot{number:04}" for number in range(robots)]
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.ROUTER)
    socket.linger = 0
    socket.setsockopt(zmq.SNDHWM, 256)
    socket.bind(endpoint)
    watcher, begin_s, done, next_s, turn = (
        b"",
        time.monotonic(),
        0,
        dict.fromkeys((STATE, ROBOTS, ABOUT), 0.0),
        0,
    )
    every = {STATE: 0.5, ROBOTS: 1.0, ABOUT: 5.0}
    while not stop.is_set():
        while socket.poll(0):
            watcher = socket.recv_multipart()[0]
        now_s = time.monotonic()
        if watcher:
            for topic, due_s in next_s.items():
                if now_s >= due_s:
                    next_s[topic] = now_s + every[topic]
                    for body in told_of(robots, now_s, int((now_s - begin_s) * robots * ACTIONS_HZ))[topic]:
                        socket.send_multipart([watcher, topic, pack(body)])
            due = min(int((now_s - begin_s) * robots * hz) - done, 4 * MAX_REPORTS)
            while due > 0:
                some = []
                for _ in range(min(due, MAX_REPORTS)):
                    some.append(
                        (names[turn % robots], *frames[turn % robots][turn // robots % len(frames[0])])
                    )
                    turn += 1
                socket.send_multipart([watcher, STATUS, pack({"v": VERSION, "reports": some})])
                due -= len(some)
                done += len(some)
                sent.value = done
        else:
            begin_s = now_s
        time.sleep(0.05)  # as often as a gateway flushes
    socket.close()
    context.term()


def share_of_a_core(process: psutil.Process, seconds: float) -> float:
    before, begin_s = process.cpu_times(), time.monotonic()
    time.sleep(seconds)
    after = process.cpu_times()
    spent_s: float = (after.user - before.user) + (after.system - before.system)
    return spent_s / (time.monotonic() - begin_s)


def dashboard_process() -> psutil.Process:
    for child in psutil.Process().children():
        if "dashboard" in child.cmdline():
            return child
    raise RuntimeError("the dashboard is not among the children")


def measure(robots: int, hz: float, seconds: float) -> dict[str, Any]:
    """One fleet: without a viewer, then with one page open."""
    stop, sent = multiprocessing.Event(), multiprocessing.Value("q", 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        endpoint = f"ipc://{folder / 'watch'}"
        sender = multiprocessing.Process(target=gateway, args=(endpoint, robots, hz, stop, sent), daemon=True)
        sender.start()
        load = os.getloadavg()[0]
        try:
            with dashboard(endpoint, folder) as (address, token):
                process = dashboard_process()
                time.sleep(WARM_UP_S)
                before, begin_s = sent.value, time.monotonic()
                alone = share_of_a_core(process, seconds)
                reports_hz = (sent.value - before) / (time.monotonic() - begin_s)
                browser = Browser(folder)
                try:
                    browser.size(1400, 1000)
                    browser.open(f"{address}#token={token}")
                    browser.until_text("#robots-count", f"{robots:,}")
                    time.sleep(WARM_UP_S)
                    browser.ask("/timeouts", {"script": 120_000})
                    frames = browser.ask("/execute/async", {"script": FRAMES, "args": [10_000]})
                    watched = share_of_a_core(process, seconds)
                    live = browser.text("#link-text")
                finally:
                    browser.close()
                memory = process.memory_info().rss / 2**20
        finally:
            stop.set()
            sender.join(30)
    return {
        "robots": robots,
        "reports per second": round(reports_hz),
        "share of a core, nobody looks": round(alone, 3),
        "share of a core, one page": round(watched, 3),
        "frames per second": round(frames / 10, 1),
        "page": live,
        "memory MB": round(memory),
        "load average": round(load, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--robots", default="100,1000", help="sizes of the fleet, separated by commas")
    parser.add_argument("--hz", type=float, default=10.0, help="reports of each robot per second")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each share is measured")
    options = parser.parse_args()
    if not browser_is_here():
        print(MISSING)
        return 2
    rows = []
    for robots in map(int, options.robots.split(",")):
        rows.append(measure(robots, options.hz, options.seconds))
        print(rows[-1], flush=True)
    last = rows[-1]
    aims = [
        {
            "aim": f"{last['robots']} robots at {options.hz:g} Hz: the dashboard takes below 20 % of a core",
            "value": f"{last['share of a core, one page']:.0%} with one page open,"
            f" {last['share of a core, nobody looks']:.0%} without",
            "holds": last["share of a core, one page"] < MAX_CORE_SHARE,
        },
        {
            "aim": f"{last['robots']} robots at {options.hz:g} Hz: the page draws 30 frames per second",
            "value": f"{last['frames per second']:g} in headless Chromium without a graphics card",
            "holds": last["frames per second"] >= MIN_FPS,
        },
    ]
    print_aims(aims)
    note = (
        "A process in the gateway's place tells what a gateway tells of such a fleet. The load average is that of the"
        " machine's two cores when a row began; sender, dashboard and browser share them."
    )
    write(RESULTS / "dashboard.json", rows, aims, [note], how="; real time")
    return 0 if all(aim["holds"] for aim in aims) else 1


if __name__ == "__main__":
    raise SystemExit(main())
