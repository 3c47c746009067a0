"""The dashboard in a browser: what a person sees of a fleet, decides, and is told when what is shown is old."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rosa_contract.wire import messages as m
from rosa_contract.wire.images import encode_image
from rosa_contract.wire.status import Audit, ComponentStatus, EndedCall, OpenAlert, TakenDecision
from tests.system.dashboard.page import MISSING, Browser, browser_is_here, dashboard
from tests.system.server_harness import PATIENCE_S, ROOT, Robot, Server, serving

pytestmark = pytest.mark.skipif(not browser_is_here(), reason=MISSING)

EVIL = "<img src=x onerror=document.title='owned'>"
CHOICES = ("resume", "retry", "return_to_safe_state", "abort")
FACT = ComponentStatus("system1", 300.0, 80.0, 120.0, 9, 8, 1, 0, 0)
CALLS = (EndedCall("system1", 7, "in_time", 80.0, 100.0), EndedCall("system1", 8, "missed", 300.0, 50.0))
NEWS = (TakenDecision("stop_and_resend", "slo_missed", "no answer within 300 ms", "system1", 40.0),)


class Scripted:
    """A robot that says how it is, waits for a person when it is told to, and takes the first decision."""

    def __init__(self, server: Server, name: str) -> None:
        self.robot = Robot(server, name)
        self.robot.join()
        self.alert: OpenAlert | None = None
        self.taken: list[m.Decide] = []
        self.rgb: np.ndarray | None = None  # what its camera shows; None: it asks for nothing
        self._number = 0
        self.thinks = False  # it answers no decision yet
        self._asked: list[m.Decide] = []
        self.settled = ""  # why a decision is too late; empty: the first one counts
        self._audits: list[Audit] = []
        self._news: list[TakenDecision] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            audits, self._audits = tuple(self._audits), []
            news, self._news = (*NEWS, *self._news), []
            alert = self.alert
            state, reason = ("executing", "") if alert is None else ("waiting_for_human", alert.reason)
            if self.rgb is not None:
                self._number += 1
                self.robot.request(self._number, images={"front": encode_image(self.rgb, "rgb8")})
            facts = ((FACT,), alert, CALLS, news, audits, "cell-4:/data/run.mcap", "pick the red <b>cup")
            self.robot.send(m.Status(state, reason, True, 3, 1, False, *facts))
            if self.robot.socket.poll(100):
                message = self.robot.receive()
                if isinstance(message, m.Decide):
                    self._asked.append(message)
            while self._asked and not self.thinks:
                self._judge(self._asked.pop(0))

    def _judge(self, asked: m.Decide) -> None:
        why = self.settled
        self.robot.send(m.Decided(asked.number, not why, "alert_settled" if why else "", why))
        self._audits.append(Audit(asked.alert_id, asked.choice, asked.decided_by, asked.why, not why, why))
        if not why:
            self.alert = None
            self.taken.append(asked)

    def say(self, decision: TakenDecision, audit: Audit | None = None) -> None:
        """With its next report."""
        if audit is not None:
            self._audits.append(audit)
        self._news.append(decision)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        self.robot.close()


class Scene:
    """A server with robots, its dashboard, and a person who looks at it."""

    def __init__(self, server: Server, browser: Browser, address: str, token: str) -> None:
        self.server, self.browser, self.address, self.token = server, browser, address, token
        self.panda = Scripted(server, "panda0")
        self.evil = Scripted(server, EVIL)

    def look(self) -> Browser:
        """The overview, anew."""
        self.browser.open("about:blank")
        self.browser.open(f"{self.address}#token={self.token}")
        self.browser.until_text("#robots", "panda0")
        return self.browser


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("scene")
    watch = f"ipc://{folder / 'private' / 'watch'}"
    with (
        serving(folder, gateway=f', watch: "{watch}"') as server,
        dashboard(watch, folder) as (address, token),
    ):
        browser = Browser(folder)
        try:
            one = Scene(server, browser, address, token)
            yield one
            one.panda.close()
            one.evil.close()
        finally:
            browser.close()


def waiting(number: int, reason: str = "the arm reports a fault") -> OpenAlert:
    return OpenAlert(number, "arm_fault", reason, CHOICES)


def test_it_shows_robots_servers_and_how_near_deadlines_are(scene: Scene) -> None:
    page = scene.look()
    page.until_text("#link-text", "live")
    page.until_text("#robots", "executing")
    page.until_text("#robots", "60 %")  # 120 of 300 ms
    page.until_text("#servers", "policy")
    assert page.text("#servers thead th:last-child") == "Epoch"
    assert page.text("#servers tbody tr td:last-child") == "0"
    page.until(lambda: page.text("#robots-count") == "2", "both robots")
    page.until_text("#robots", "pick")
    assert page.text("#banner") == "", "everything that the gateway tells can be read"
    assert "Nobody waits for you" in page.text("#alerts-panel")
    page.until(
        lambda: page.run("return document.querySelectorAll('#chart-actions canvas').length"), "the chart"
    )


CROWD = """
const done = arguments[arguments.length - 1];
import('/page/overview.js').then((overview) => {
  window.crowd = Array.from({ length: 200 }, (_, number) => `zz${String(number).padStart(3, '0')}`);
  window.overview = overview;
  const fact = [['system1', 300, 80, 120, 0, 9, 'robot']];
  const row = { task: 'pick', slot: '', state: 'executing', reason: '', silent: false, stopped: false, alert: null };
  for (const robot of crowd) overview.changed({ robot, ...row, rate_hz: 1, planned_hz: 2.5, deadlines: fact });
  done(true);
}, (error) => done(String(error)));
"""
LAST = "return [...document.querySelectorAll('#robots .robot .rate b')].at(-1).textContent"
FRAMES = """
const done = arguments[0];
let left = 20;
requestAnimationFrame(function next() { left-- ? requestAnimationFrame(next) : done(1); });
"""
SEEN = "return [...document.querySelectorAll('#robots .robot:not([hidden]) .name a')].map((one) => one.textContent)"


def test_a_row_out_of_sight_is_drawn_when_it_comes_into_sight(scene: Scene) -> None:
    page = scene.look()
    page.ask("/timeouts", {"script": 60_000})
    assert page.ask("/execute/async", {"script": CROWD, "args": []}) is True
    rows = "return document.querySelectorAll('#robots .robot').length"
    page.until(lambda: page.run(rows) == 202, "all rows")
    page.until(lambda: page.run(LAST) == "1.00", "the first figures")
    page.run("overview.changed({ robot: crowd.at(-1), rate_hz: 7 })")
    page.ask("/execute/async", {"script": FRAMES, "args": []})
    assert page.run(LAST) == "1.00", "out of sight nothing is drawn"
    page.run("document.querySelector('#robots .robot:last-child').scrollIntoView()")
    page.until(lambda: page.run(LAST) == "7.00", "the figures when it is in sight")
    page.run("document.getElementById('filter').value = 'silent'")
    page.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
    page.run("overview.changed({ robot: crowd[100], silent: true })")
    page.until(lambda: page.run(SEEN) == ["zz100"], "what is looked for, in sight or not")
    assert page.run("return overview.rows.get('zz100').task") == "pick", "a patch keeps the rest of the row"
    page.run("for (const robot of crowd) overview.forget(robot)")
    page.run("scrollTo(0, 0)")
    assert page.problems() == []


UNDRAWN = """
const done = arguments[0];
import('/page/overview.js').then(({ changed, clearRows }) => {
  const alert = { id: 5, cause: 'arm_fault', reason: 'a fault', choices: ['resume'], since_s: 0 };
  const row = { task: 'pick', slot: '', state: '', reason: '', silent: false, stopped: false, rate_hz: 1 };
  changed({ robot: 'panda9', ...row, alert, planned_hz: 1, deadlines: [] });
  clearRows();
  done(document.getElementById('alerts').innerText);
}, (error) => done(String(error)));
"""


def test_an_alert_goes_with_its_robot_though_no_row_of_it_was_drawn(scene: Scene) -> None:
    """As in a page that nobody looks at, which draws nothing, while its stream begins anew."""
    page = scene.look()
    page.ask("/timeouts", {"script": 60_000})
    assert "panda9" not in page.ask("/execute/async", {"script": UNDRAWN, "args": []})
    assert page.problems() == []


def test_its_cameras_are_shown_while_somebody_looks(scene: Scene) -> None:
    red = np.zeros((8, 8, 3), np.uint8)
    red[..., 0] = 255
    page = scene.look()
    scene.panda.rgb = red
    page.run("location.hash = '#/robot/panda0'")
    page.until_text("#robot-name", "panda0")
    assert page.run("return document.querySelectorAll('#cameras img').length") == 0, "nobody looks yet"
    page.click("#cameras-show")
    page.until_text("#cameras", "front, 8 × 8, now")
    page.until(lambda: middle(page)[:1] > [200] and middle(page)[2] < 60, "a red picture")
    scene.panda.rgb = red[..., ::-1].copy()
    page.until(lambda: middle(page)[2] > 200, "the next picture")
    scene.panda.rgb = None
    page.until(
        lambda: page.run("return document.querySelector('.camera').dataset.old") == "true", "an old picture"
    )
    page.click("#cameras-show")
    assert page.run("return document.querySelectorAll('#cameras img').length") == 0
    assert page.problems() == []
    page.run("location.hash = '#/'")


def test_cameras_of_several_robots_are_shown_in_the_overview_on_request(scene: Scene) -> None:
    page = scene.look()
    page.until_text("#robots", EVIL)
    assert page.run(PICTURES) == [], "nobody looks yet"
    for robot in (scene.panda, scene.evil):
        robot.rgb = np.full((8, 8, 3), 90, np.uint8)
        page.click(f"[aria-label={json.dumps(f'Cameras of {robot.robot.name}')}]")
    page.until(lambda: sorted(page.run(PICTURES)) == sorted([EVIL, "panda0"]), "a picture of each")
    scene.panda.rgb = scene.evil.rgb = None
    page.click('[aria-label="Cameras of panda0"]')
    assert page.run(PICTURES) == [EVIL], "the other one is looked at as before"
    page.click(f"[aria-label={json.dumps(f'Cameras of {EVIL}')}]")
    assert page.run(PICTURES) == []
    assert page.problems() == []


PICTURES = """
return [...document.querySelectorAll('#robots .camera img')].filter((one) => one.offsetParent && one.naturalWidth)
  .map((one) => one.closest('.robot').querySelector('.name a').textContent);
"""


def middle(page: Browser) -> list[int]:
    """Red, green and blue in the middle of the first picture; zeros while there is none."""
    found: list[int] = page.run(
        "const image = document.querySelector('#cameras img'), canvas = document.createElement('canvas');"
        "if (!image?.naturalWidth) return [0, 0, 0];"
        "canvas.width = canvas.height = 8;"
        "const context = canvas.getContext('2d');"
        "context.drawImage(image, 0, 0, 8, 8);"
        "return [...context.getImageData(4, 4, 1, 1).data].slice(0, 3)"
    )
    return found


def test_what_a_robot_says_is_text_and_nothing_else(scene: Scene) -> None:
    page = scene.look()
    scene.evil.alert = waiting(5, EVIL * 4)
    page.until_text("#alerts", EVIL)
    assert page.run("return document.querySelectorAll('main img').length") == 0
    assert "owned" not in page.run("return document.title")
    page.run("location.hash = document.querySelector('.alert-robot').getAttribute('href')")
    page.until_text("#robot-name", EVIL)
    page.until_text("#robot-log", "no answer within 300 ms")
    page.until_text("#robot-recording", "cell-4:/data/run.mcap")
    page.until_text("#robot-told", "pick the red <b>cup")
    scene.evil.alert = None
    page.run("location.hash = '#/'")
    page.until_text("#alerts-panel", "Nobody waits for you")
    assert page.problems() == []


def test_a_person_decides_and_the_robot_goes_on(scene: Scene) -> None:
    page = scene.look()
    scene.panda.taken.clear()
    scene.panda.alert = waiting(17)
    page.until_text("#alerts", "the arm reports a fault")
    assert page.text("#alerts button.primary") == "Resume", "what the robot names first"
    page.click("#alerts [data-choice=resume]")
    page.until_text("#decide-title", "Resume: panda0")
    page.click("#decide-yes")
    assert scene.panda.taken == [], "a reason is needed"
    page.click("#why")
    page.type("it is clear")
    page.click("#decide-yes")
    page.until(lambda: scene.panda.taken, "the decision at the robot")
    [taken] = scene.panda.taken
    assert (taken.alert_id, taken.choice, taken.why) == (17, "resume", "it is clear")
    assert "@" in taken.decided_by
    page.until_text("#toasts", "taken")
    page.until_text("#alerts-panel", "Nobody waits for you")
    page.until_text("#audit", "it is clear")
    [line] = [one for one in scene.server.events("operator_decided") if one["why"] == "it is clear"]
    assert (line["by"], line["accepted"]) == (taken.decided_by, True)


def test_who_is_second_is_told_who_was_first(scene: Scene) -> None:
    page = scene.look()
    scene.panda.settled, scene.panda.alert = "alert 18 is settled: ben decided abort 0.2 s ago", waiting(18)
    page.until(lambda: page.run("return document.querySelector('[data-choice=retry]') !== null"), "the alert")
    page.click("#alerts [data-choice=retry]")
    page.click("#why")
    page.type("again")
    page.click("#decide-yes")
    page.until_text("#decide-problem", "ben decided abort")
    scene.panda.settled, scene.panda.alert = "", None
    page.click("#decide-no")
    page.until_text("#audit", "not taken")


def test_a_second_robot_can_be_stopped_while_the_first_one_has_not_answered(scene: Scene) -> None:
    page = scene.look()
    scene.panda.thinks = True
    scene.evil.taken.clear()

    def stop(name: str) -> None:
        page.run("location.hash = `#/robot/${encodeURIComponent(arguments[0])}`", name)
        page.until_text("#robot-name", name)
        page.click("#robot-stop")
        page.until_text("#decide-title", f"Emergency stop: {name}")
        page.type("smoke")
        page.click("#decide-yes")

    stop("panda0")
    page.click("#decide-no")
    stop(EVIL)
    page.until(lambda: scene.evil.taken, "the second stop")
    page.until_text("#toasts", f"{EVIL}: emergency stop: taken")
    page.click("#robot-stop")
    scene.panda.thinks = False
    page.until_text("#toasts", "panda0: ")
    assert page.run("return document.getElementById('decide').open"), "what another robot says closes nothing"
    page.click("#decide-no")
    page.run("location.hash = '#/'")


def test_what_a_person_decided_is_told_once_and_with_the_reason(scene: Scene) -> None:
    page = scene.look()
    page.run("location.hash = '#/robot/panda0'")
    page.until_text("#robot-name", "panda0")
    who, alert = "ada@lab", waiting(23)
    repeated = TakenDecision("resume", "operator", f"{who} decided: resume", "", 40.0)
    scene.panda.say(repeated, Audit(alert.alert_id, "resume", who, "it hangs", True, ""))
    page.until_text("#robot-log", "it hangs")
    missed = TakenDecision("stop_and_call_human", "slo_missed", "system1: no answer", "system1", 40.0)
    scene.panda.say(missed)
    page.until_text("#robot-log", "system1: no answer")
    log = page.text("#robot-log")
    assert f"{who} decided" not in log, "its own words for it are older, so they are there by now"
    assert "system1: system1" not in log
    page.run("location.hash = '#/'")


def test_everything_is_reached_with_the_keyboard(scene: Scene) -> None:
    page = scene.look()
    scene.panda.taken.clear()
    scene.panda.alert = waiting(19)
    page.until(lambda: page.run("return document.querySelector('[data-choice=abort]') !== null"), "the alert")
    for _ in range(30):
        page.type("\ue004")  # tab
        if page.run("return document.activeElement.dataset.choice") == "abort":
            break
    assert page.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid", (
        "focus is seen"
    )
    page.type("\ue007")  # enter
    page.until_text("#decide-title", "Abort the task: panda0")
    page.type("\ue00c")  # escape
    assert not page.run("return document.getElementById('decide').open")
    assert page.run("return document.activeElement.dataset.choice") == "abort", "back where one was"
    page.type("\ue007")
    page.until_text("#decide-title", "Abort the task: panda0")
    page.type("enough\ue004\ue007")
    page.until(lambda: scene.panda.taken, "the decision at the robot")
    assert scene.panda.taken[0].choice == "abort"


@pytest.mark.parametrize(("width", "what"), [(360, "a phone"), (640, "200 % of 1280")])
def test_nothing_is_cut_off_on_a_narrow_screen(scene: Scene, width: int, what: str) -> None:
    page = scene.look()
    try:
        page.size(width, 800)
        for view, ready in (("#/", "#robots"), ("#/robot/panda0", "#robot-name")):
            page.run("location.hash = arguments[0]", view)
            page.until_text(ready, "panda0")
            wide = page.run("return document.documentElement.scrollWidth")
            assert wide <= width, f"{what}: {view} is {wide} px wide"
    finally:
        page.devtools("Emulation.clearDeviceMetricsOverride", {})


CONTRAST = """
const lum = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const rgba = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
const behind = (node) => {
  const layers = [];
  for (let one = node; one; one = one.parentElement) layers.push(rgba(getComputedStyle(one).backgroundColor));
  let found = [255, 255, 255];
  for (const [r, g, b, a] of layers.reverse()) found = [r, g, b].map((v, i) => v * a + found[i] * (1 - a));
  return found;
};
const bad = [];
for (const node of document.body.querySelectorAll('*')) {
  const words = [...node.childNodes].filter((one) => one.nodeType === 3).map((one) => one.data.trim()).join('');
  if (!words || !node.offsetParent || node.closest('.unseen')) continue;
  const [a, b] = [lum(rgba(getComputedStyle(node).color)), lum(behind(node))].sort((x, y) => y - x);
  const ratio = (a + .05) / (b + .05);
  if (ratio < 4.5) bad.push(`${words.slice(0, 40)}: ${ratio.toFixed(2)}`);
}
return bad;
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_word_can_be_read_in_light_and_dark(scene: Scene, dark: bool) -> None:
    page = scene.look()
    page.dark(dark)
    scene.panda.alert = waiting(21)
    try:
        page.until(
            lambda: page.run("return document.querySelector('[data-choice=abort]') !== null"), "the alert"
        )
        page.until_text("#robots", "waiting for human")
        background = page.run("return getComputedStyle(document.body).backgroundColor")
        assert (int(re.findall(r"\d+", background)[0]) < 128) is dark
        assert page.run(CONTRAST) == []
    finally:
        scene.panda.alert = None
        page.dark(False)


def test_without_a_token_nothing_is_shown(scene: Scene) -> None:
    page = scene.browser
    page.open("about:blank")
    page.open(scene.address)
    page.run("sessionStorage.clear()")
    page.open("about:blank")
    page.open(f"{scene.address}#token=guessed")
    page.until_text("#sign-in", "the token is not known")
    assert "panda0" not in page.text("body")


def silent_ms() -> tuple[int, int]:
    """After how long without a message the page counts as cut off, and how often it looks."""
    script = (ROOT / "rosa_server/dashboard/page/stream.js").read_text()
    return int(re.findall(r"SILENT_MS = (\d+)", script)[0]), int(
        re.findall(r"#check\(\), (\d+)\)", script)[0]
    )


def test_a_page_that_is_cut_off_says_so_and_is_grey(tmp_path: Path) -> None:
    """Its own clock decides: within two seconds after the last message, whatever the server does."""
    assert sum(silent_ms()) < 2000
    watch = f"ipc://{tmp_path / 'private' / 'watch'}"
    browser = None
    with serving(tmp_path, gateway=f', watch: "{watch}"') as server:
        try:
            with dashboard(watch, tmp_path) as (address, token):
                robot = Scripted(server, "panda0")
                browser = Browser(tmp_path)
                browser.open(f"{address}#token={token}")
                browser.until_text("#link-text", "live")
                robot.close()
                server.kill()
                browser.until_text("#banner", "The server does not answer")
                assert grey(browser)
                server.start()
                browser.until_text("#link-text", "live")
                assert not grey(browser) and browser.text("#banner") == ""
            browser.until_text("#banner", "Disconnected from the dashboard")
            browser.until_text("#link-text", "disconnected for")
            assert grey(browser)
            assert browser.run("return document.title").startswith("(!)")
        finally:
            if browser is not None:
                browser.close()


def grey(browser: Browser) -> Any:
    return browser.run("return getComputedStyle(document.getElementById('overview')).filter").startswith(
        "grayscale"
    )
