// One robot: what it does, its open alert, its last minutes as a timeline, and what it decided.

import { Cameras } from "./cameras.js";
import { alertCard, ask } from "./decide.js";
import { byId, element, lasting, number, say, spaced, whole } from "./format.js";
import { now_s, rows, stateWords, toneOf, TONES } from "./overview.js";

const WINDOW_S = 180, LANE = 26, LEFT = 92, EVERY_MS = 1000;
const cameras = new Cameras(byId("cameras"), byId("cameras-show"), byId("no-cameras"));
let robot = "", token = "", told = null, toldAt = 0, alertKey = "", timer = 0;

export function signedWith(value) { token = value; }

export function showRobot(name) {
  robot = name;
  told = null;
  alertKey = "";
  byId("robot-name").textContent = name;
  byId("robot-alert").replaceChildren();
  byId("robot-log").replaceChildren();
  byId("timeline").width = 0; // what is drawn there is another robot's
  clearInterval(timer);
  cameras.of(name);
  if (name) {
    load();
    timer = setInterval(load, EVERY_MS);
    drawRobot();
  }
}

async function load() {
  const asked = robot;
  try {
    const answer = await fetch(`api/robot?name=${encodeURIComponent(asked)}`, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok || asked !== robot) return;
    told = await answer.json();
    toldAt = performance.now();
    drawLog();
    drawTimeline();
  } catch { /* the page says that it is disconnected */ }
}

export function drawRobot() {
  const row = rows.get(robot);
  const chip = byId("robot-state");
  if (!row) {
    say(chip, "not connected");
    chip.dataset.tone = "silent";
    say(byId("robot-reason"), "No robot of this name is connected to this server.");
    byId("robot-actions").hidden = byId("robot-recording").hidden = byId("robot-told").hidden = true;
    byId("robot-alert").replaceChildren();
    drawDeadlines([]);
    alertKey = "";
    return;
  }
  say(chip, stateWords(row));
  chip.dataset.tone = toneOf(row);
  const attempt = row.attempt > 1 ? `, attempt ${row.attempt}` : "";
  say(byId("robot-reason"), `${row.slot || row.task}${attempt}, ${number(row.rate_hz, 2)} actions/s${row.planned_hz ? ` of ${number(row.planned_hz, 2)} planned` : ""}${row.reason && !row.alert ? ` – ${row.reason}` : ""}`);
  byId("robot-actions").hidden = !row.reports;
  byId("robot-stop").hidden = row.stopped;
  byId("robot-release").hidden = !row.stopped;
  byId("robot-told").hidden = !row.told;
  say(byId("robot-told").lastElementChild, row.told);
  byId("robot-recording").hidden = !row.recording;
  say(byId("robot-recording").lastElementChild, row.recording);
  const key = row.alert ? `${row.alert.id} ${row.stopped}` : "";
  if (key !== alertKey) {
    alertKey = key;
    byId("robot-alert").replaceChildren(...(row.alert ? [alertCard(row)] : []));
  }
  if (row.alert) say(byId("robot-alert").querySelector(".since"), `for ${lasting(now_s - row.alert.since_s)}`);
  drawDeadlines(row.deadlines);
}

byId("robot-stop").addEventListener("click", () => ask(robot, "emergency_stop", null));
byId("robot-release").addEventListener("click", () => ask(robot, "release_emergency_stop", null));

function drawDeadlines(deadlines) {
  const body = byId("deadlines").tBodies[0];
  while (body.rows.length > deadlines.length) body.deleteRow(-1);
  deadlines.forEach(([name, slo_ms, last_ms, p99_ms, missed, in_time], index) => {
    const row = body.rows[index] ?? body.insertRow();
    while (row.cells.length < 6) row.insertCell();
    const cells = [name, `${whole(slo_ms)} ms`, in_time ? `${whole(last_ms)} ms` : "–", in_time ? `${whole(p99_ms)} ms` : "–", whole(in_time), whole(missed)];
    cells.forEach((text, column) => say(row.cells[column], text));
    row.cells[5].dataset.tone = missed ? "bad" : "";
  });
}

const about = (component, words) => (!component || words.startsWith(`${component}:`) ? words : `${component}: ${words}`);

function drawLog() {
  // What a person decided is there once, with the reason: the robot repeats it as a decision of its own.
  const taken = new Set(told.audits.filter((one) => one[4]).map(([, choice, who]) => `${who} decided: ${choice} ${choice}`));
  const all = [
    ...told.decisions.filter(([, action, , reason]) => !taken.has(`${reason} ${action}`)).map(([ago, action, cause, reason, component]) => ({ ago, title: spaced(action), words: about(component, reason || spaced(cause)), tone: toneOfAction(action) })),
    ...told.audits.map(([ago, choice, who, why, accepted, reason]) => ({ ago, title: `${who || "somebody"}: ${spaced(choice)}`, words: accepted ? why : `not taken: ${reason}`, tone: accepted ? "good" : "bad" })),
  ].sort((a, b) => a.ago - b.ago).slice(0, 60);
  byId("no-robot-log").hidden = all.length > 0;
  byId("robot-log").replaceChildren(...all.map((one) => {
    const item = element("li");
    item.dataset.tone = one.tone;
    item.append(element("time", "", `${lasting(one.ago)} ago`), element("b", "", one.title), element("span", "", one.words));
    return item;
  }));
}

const QUIET = ["start", "clear", "resume", "done", "plan", "execute", "horizon"];
const toneOfAction = (action) => (action === "stop_and_call_human" || action === "aborted" || action === "failed" ? "bad" : QUIET.includes(action) ? "" : "warn");

// -- the timeline -----------------------------------------------------------------------------------------------------

export function drawTimeline() {
  const canvas = byId("timeline");
  const width = canvas.clientWidth;
  if (!told || !width) return;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const lanes = ["state", ...new Set([...(told.row.deadlines ?? []).map((one) => one[0]), ...told.calls.map((one) => one[1])]), "decisions"];
  const height = lanes.length * LANE + 24, scale = devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const g = canvas.getContext("2d");
  g.scale(scale, scale);
  const late = (performance.now() - toldAt) / 1000;
  const at = (ago) => LEFT + (width - LEFT - 8) * (1 - (ago + late) / WINDOW_S);
  const top = (lane) => lanes.indexOf(lane) * LANE;
  g.font = "12px system-ui, sans-serif";
  g.textBaseline = "middle";
  lanes.forEach((lane, index) => {
    g.fillStyle = colour("--muted");
    g.fillText(lane.length > 12 ? `${lane.slice(0, 11)}…` : lane, 0, index * LANE + LANE / 2, LEFT - 8);
    g.fillStyle = colour("--track");
    g.fillRect(LEFT, index * LANE + 5, width - LEFT - 8, LANE - 10);
  });
  g.save();
  g.beginPath();
  g.rect(LEFT, 0, width - LEFT - 8, height);
  g.clip();
  const states = [...told.states].sort((a, b) => b[0] - a[0]);
  states.forEach(([ago, state], index) => {
    const until = index + 1 < states.length ? states[index + 1][0] : 0;
    const tone = TONES[state] ?? "", from = at(ago), wide = Math.max(1, at(until) - from);
    g.fillStyle = colour(tone ? `--${tone}` : "--line");
    g.fillRect(from, top("state") + 5, wide, LANE - 10);
    const words = spaced(state), begin = Math.max(from, LEFT);
    if (g.measureText(words).width + 12 > from + wide - begin) return;
    g.fillStyle = colour(tone ? `--on-${tone}` : "--muted"); // words where they have room: colours alone say too little
    g.fillText(words, begin + 6, top("state") + LANE / 2);
  });
  for (const [ago, component, ending, duration_ms] of told.calls) {
    g.fillStyle = colour({ in_time: "--good", missed: "--bad", cancelled: "--muted" }[ending]);
    const long = Math.max(2, (duration_ms / 1000 / WINDOW_S) * (width - LEFT));
    const inset = ending === "missed" ? 3 : 7;
    g.fillRect(at(ago) - long, top(component) + inset, long, LANE - 2 * inset);
  }
  for (const [ago, action] of told.decisions) {
    const tone = toneOfAction(action);
    g.fillStyle = colour(tone === "bad" ? "--bad" : tone === "warn" ? "--warn" : "--muted");
    g.fillRect(at(ago) - 1.5, top("decisions") + 4, 3, LANE - 8);
  }
  g.restore();
  g.fillStyle = colour("--muted");
  for (let ago = 0; ago <= WINDOW_S; ago += 60) {
    g.textAlign = ago === 0 ? "right" : ago === WINDOW_S ? "left" : "center";
    g.fillText(ago ? `−${ago / 60} min` : "now", ago === 0 ? width - 8 : at(ago - late), height - 9);
  }
  g.textAlign = "left";
}
