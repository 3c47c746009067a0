"""The pictures of the dashboard, of a timeline and of the demo in docs/, from what really runs. Minutes.

    python -m scripts.docs_site.pictures            # all of them; `demo` or `fleet`: one kind

`demo`: `make demo FAULT=server_killed ARGS=--operator` with a person at the page and one at a shell. `fleet`: a server
with a schedule, and virtual robots. Needs Debian's chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import yaml

from rosa_client.connection.link import GatewayLink
from rosa_client.loops.reporting import Reporter
from rosa_client.runtime.commands import CallEnded, Command, Inputs, Send
from rosa_contract.clock import MonotonicClock
from rosa_contract.config.factory import Factory, load_factory
from rosa_contract.wire.messages import Decided, Hello, Request
from rosa_contract.wire.status import Audit
from rosa_sim.fleet.measure import Meter
from rosa_sim.fleet.robot import VirtualRobot
from rosa_sim.fleet.simulation import ROBOT
from rosa_sim.ports import free_port
from scripts import animation
from tests.system.dashboard.page import MISSING, Browser, browser_is_here, dashboard
from tests.system.domains import own_domain

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PERSON = "ada"
PATIENCE_S = 400.0
WIDE, PHONE = (1360, 900), (390, 844)
FLEET = """\
server_cluster: {num_servers: 3, gpu_type: NVIDIA H200}
robot_fleet: [{task: pick, num_robots: 6}]
pick:
  pipeline: {action_period_ms: 400}
  components:
    system1: {model: nvidia/GR00T-N1.6-3B, slo_ms: 500, fallback: stop_and_resend}
    monitor: {model: Qwen2.5-VL-7B-Instruct, freq_hz: 0.5, slo_ms: 2000, fallback: stop_and_resend}
models:
  nvidia/GR00T-N1.6-3B: {backend: emulated, options: {profile: h200/nvidia--GR00T-N1.6-3B.yaml, dof: 2}}
  Qwen2.5-VL-7B-Instruct: {backend: emulated, options: {profile: h200/Qwen2.5-VL-7B-Instruct.yaml, verdict: ongoing}}
"""
CUT_OFF, FAULTY = 1, 4  # of the fleet: the robot whose calls get lost, and the one whose arm trips


# -- a fleet --------------------------------------------------------------------------------------------------


class ToldRobot(VirtualRobot):
    """A virtual robot that also reports, and takes a person's decisions."""

    def __init__(self, name: str, factory: Factory, link: GatewayLink) -> None:
        self.reporter, self.gateway = Reporter(), link
        self.fault, self.cut_off = "", False
        task = factory.tasks["pick"]
        super().__init__(name, task, ROBOT, link, Meter({name: task}, 0.0, 0.0))

    def _feel(self) -> Inputs:
        felt = super()._feel()
        return replace(felt, arm_fault=self.fault, arm_recovers=True) if self.fault else felt

    def _carry(self, commands: list[Command], now_s: float) -> None:
        for command in commands:
            self.reporter.hear(command, now_s)
        super()._carry(commands, now_s)

    def turn(self, now_s: float) -> None:
        """What came, what is due, and what has to leave."""
        sends = [send for one in self.gateway.poll(0.0, now_s) for send in self.receive(one, now_s)]
        while self.gateway.asked:
            asked = self.gateway.asked.popleft()
            refusal, commands = self.core.decide(now_s, asked.alert_id, asked.choice, asked.decided_by)
            self._carry(commands, now_s)
            words = (asked.alert_id, asked.choice, asked.decided_by, asked.why)
            reason = "" if refusal is None else refusal.reason
            self.reporter.audited(Audit(*words, refusal is None, reason), now_s)
            self.gateway.decided(Decided(asked.number, refusal is None, "", reason), now_s)
        for send in [*sends, *self.tick(now_s)]:
            if isinstance(send, Send):
                if not self.cut_off:
                    about = (send.request_id, send.component, send.budget_ms, send.prompt)
                    self.gateway.send(Request(*about, progress=send.progress), now_s)
            elif isinstance(send, CallEnded):
                self.gateway.cancel(send.request_id, now_s)
        if self.gateway.ready and (report := self.reporter.due(self.core, self.gateway.status_hz, now_s)):
            self.gateway.report(report, now_s)


class Fleet:
    """Virtual robots in a thread of this process."""

    def __init__(self, endpoint: str, factory: Factory, count: int) -> None:
        clock, names = MonotonicClock(), [f"panda{number}" for number in range(count)]
        self.robots = [
            ToldRobot(name, factory, GatewayLink(endpoint, Hello(name, "pick", {}, {}))) for name in names
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(clock,), daemon=True)
        self._thread.start()

    def _run(self, clock: MonotonicClock) -> None:
        for robot in self.robots:
            robot.start(clock.now_s())
        while not self._stop.wait(0.004):
            for robot in self.robots:
                robot.turn(clock.now_s())

    def close(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        for robot in self.robots:
            robot.gateway.close()


def picture_fleet(folder: Path) -> None:
    port, watch = free_port(), f"ipc://{folder / 'private' / 'watch'}"
    factory = folder / "factory.yaml"
    profiles = ROOT / "configs" / "profiles"
    gateway = f'gateway: {{bind: "tcp://127.0.0.1:{port}", metrics_port: 0, watch: "{watch}"}}\n'
    factory.write_text(FLEET.replace("profile: h200", f"profile: {profiles}/h200") + gateway)
    schedule = folder / "schedule.json"
    with schedule.open("wb") as out:
        rosa = [sys.executable, "-m", "rosa_server.cli"]
        run = {"cwd": folder, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
        subprocess.run(
            [*rosa, "plan", factory.name, "--standby", "1", "--json"], stdout=out, check=True, **run
        )  # type: ignore[call-overload]
    with (
        process([*rosa, "serve", factory.name, "--schedule", schedule.name], folder, "ROSA is ready"),
        watched(watch, folder) as page,
    ):
        fleet = Fleet(f"tcp://127.0.0.1:{port}", load_factory(factory), 6)
        try:
            page.until_text("#robots", "executing")
            time.sleep(20)
            fleet.robots[CUT_OFF].cut_off = True
            fleet.robots[FAULTY].fault = "joint 4 velocity limit"
            page.until_text("#alerts", f"panda{FAULTY}")
            page.until_text("#alerts", f"panda{CUT_OFF}")
            time.sleep(5)
            taken(page, "dashboard.png")
            page.size(*PHONE, 2.0)
            time.sleep(1)
            taken(page, "dashboard_phone.png")
            page.size(*WIDE)
            fleet.robots[CUT_OFF].cut_off = False
            decide(page, f"panda{CUT_OFF}", "resume", "its cable is in again")
            page.until_text("#audit", "its cable")
            page.dark(True)
            page.size(WIDE[0], 1100)
            page.run("scrollTo(0, document.body.scrollHeight)")
            time.sleep(8)
            taken(page, "dashboard_dark.png")
        finally:
            fleet.close()


# -- the demo -------------------------------------------------------------------------------------------------

OF_ROW = """
const [name, done] = arguments;
import('/page/overview.js').then((overview) => done(overview.rows.get(name)?.alert?.id ?? 0), () => done(0));
"""


def picture_demo(folder: Path) -> None:
    watch, runs = f"ipc://{folder / 'private' / 'watch'}", folder / "runs"
    factory = yaml.safe_load((ROOT / "configs" / "pick_place.yaml").read_text())
    gateway = {"bind": f"tcp://127.0.0.1:{free_port()}", "metrics_port": 0, "watch": watch}
    (folder / "pick_place.yaml").write_text(yaml.safe_dump(factory | {"gateway": gateway}, sort_keys=False))
    demo = [sys.executable, "-m", "rosa_sim.demo", "--config", "pick_place.yaml", "--out", str(runs)]
    demo += ["--fault", "server_killed", "--episodes", "1", "--operator"]
    with own_domain(), watched(watch, folder) as page, process(demo, folder, "fault on") as running:
        page.until_text("#alerts", "panda0")
        page.until_text("#link-text", "live")  # the server is back
        alert = page.ask("/execute/async", {"script": OF_ROW, "args": ["panda0"]})
        page.until_text("#servers", "rosa/panda-flow-policy")
        page.size(1280, 760)
        time.sleep(1)
        taken(page, "dashboard_fault.png")
        decide(page, "panda0", "resume", "I looked; the cell is clear", "dashboard_decide.png")
        second = [sys.executable, "-m", "rosa_server.cli", "operator", "decide", "panda0", "abort"]
        second += ["--alert", str(alert), "--by", "bob", "--why", "it hangs"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        late = subprocess.Popen(second, cwd=folder, env=environment)  # refused: ada was first
        page.size(WIDE[0], 1500)
        page.run("location.hash = '#/robot/panda0'")
        page.until_text("#robot-name", "panda0")
        page.click("#cameras-show")
        page.until(lambda: page.run("return document.querySelectorAll('#cameras img').length"), "a camera")
        page.until_text("#robot-log", PERSON)
        taken(page, "dashboard_robot.png")
        late.wait(PATIENCE_S)
        running.wait(PATIENCE_S)
    [run] = runs.iterdir()
    timeline = [sys.executable, "-m", "rosa_sim.timeline", run / "run.mcap", "--out", DOCS / "timeline.png"]
    subprocess.run(timeline, check=True, env=environment, timeout=PATIENCE_S)
    animation.main([str(run / "video.mp4")])


# -- both -----------------------------------------------------------------------------------------------------


@contextmanager
def process(command: list[str], folder: Path, says: str) -> Iterator[subprocess.Popen[bytes]]:
    """It runs, and has said `says`; it is ended on leaving."""
    path = folder / "process.log"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with path.open("wb") as log:
        running = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, process_group=0
        )
    try:
        until(lambda: says in path.read_text() or running.poll() is not None, says)
        if running.poll() is not None:
            raise SystemExit(path.read_text()[-2000:])
        yield running
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGINT)
            try:
                running.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)


@contextmanager
def watched(watch: str, folder: Path) -> Iterator[Browser]:
    """A browser that looks at `rosa dashboard` of the server there, as a person with a name."""
    people = folder / "people"
    add = [
        sys.executable,
        "-m",
        "rosa_server.cli",
        "dashboard",
        "--people",
        str(people),
        "--add-person",
        PERSON,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.run(add, env=environment, check=True, capture_output=True, text=True)
    token = (said.stdout + said.stderr).split()[-1]
    with dashboard(watch, folder, "--people", str(people)) as (address, _):
        page = Browser(folder)
        try:
            page.size(*WIDE)
            page.open(f"{address}#token={token}")
            yield page
        finally:
            page.close()


def decide(page: Browser, robot: str, choice: str, why: str, picture: str = "") -> None:
    """As a person does: press, say why, press again."""
    button = f"#alerts [data-choice={choice}][aria-label$=': {robot}']"
    page.until(lambda: page.run("return document.querySelector(arguments[0]) !== null", button), robot)
    page.click(button)
    page.type(why)
    if picture:
        taken(page, picture)
    page.click("#decide-yes")
    page.until(lambda: not page.run("return document.getElementById('decide').open"), "the decision")


def taken(page: Browser, name: str) -> None:
    page.picture(DOCS / name)
    print(f"wrote docs/{name}", flush=True)


def until(condition: Callable[[], object], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end_s:
            raise SystemExit(f"waited in vain for {what}")
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("all", "fleet", "demo"), default="all")
    wanted = parser.parse_args().what
    if not browser_is_here():
        print(MISSING, file=sys.stderr)
        return 1
    for name, picture in (("fleet", picture_fleet), ("demo", picture_demo)):
        if wanted in ("all", name):
            with tempfile.TemporaryDirectory(prefix="rosa-") as folder:
                picture(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
