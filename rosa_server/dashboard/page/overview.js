// The overview: alerts first, then the fleet. Only rows that can be seen are drawn, and new ones a few at a time, so that a
// thousand robots cost no frame. What changed out of sight is drawn when it comes into sight.

import { Cameras } from "./cameras.js";
import { alertCard } from "./decide.js";
import { byId, clock, element, lasting, number, percent, room, say, spaced, titled, whole } from "./format.js";

const ROWS_A_FRAME = 60;
const RANKS = { waiting_for_human: 0, clearing: 1, holding: 2, returning: 3, resetting: 4, connecting: 5 };
export const TONES = { waiting_for_human: "bad", clearing: "bad", holding: "warn", returning: "warn", resetting: "warn", connecting: "warn", executing: "good", inferring: "good" };
const MAX_LINES = 60;

export const rows = new Map(); // robot -> row, as the server told it last
const drawn = new Map(); // robot -> its nodes
const due = new Set(); // robots whose rows are to be drawn in the next frames
const unseen = new Set(); // robots that have changed out of sight
const inSight = new Set();
const alerts = new Map(); // robot -> {card, key, since}
export let now_s = 0; // by the server's clock
let sortDue = false, framed = false;

export function clearRows() {
  for (const robot of [...rows.keys()]) forget(robot); // an alert is shown before the row of its robot is drawn
}

// Half a screen before a row is reached it counts as in sight.
const sight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const robot = robotOf.get(target);
    if (!isIntersecting) { inSight.delete(robot); continue; }
    inSight.add(robot);
    if (unseen.delete(robot)) { due.add(robot); schedule(); }
  }
}, { rootMargin: "50%" });
const robotOf = new WeakMap(); // row -> robot

// A patch has what has changed of a row, and for a robot that is new all of it.
export function changed(patch) {
  const { robot } = patch;
  const row = { ...rows.get(robot), ...patch };
  rows.set(robot, row);
  alertOf(row);
  const made = drawn.get(robot);
  if (!made || inSight.has(robot)) due.add(robot);
  else unseen.add(robot);
  if (made) place(made, row);
  if (due.has(robot) || sortDue) schedule();
}

export function forget(robot) {
  rows.delete(robot);
  for (const one of [due, unseen, inSight]) one.delete(robot);
  const made = drawn.get(robot);
  if (made) { sight.unobserve(made.row); made.cameras.look(false); made.row.remove(); }
  drawn.delete(robot);
  alerts.get(robot)?.card.remove();
  alerts.delete(robot);
}

function schedule() {
  if (framed) return;
  framed = true;
  requestAnimationFrame(frame);
}

function frame() {
  framed = false;
  let left = ROWS_A_FRAME;
  for (const robot of due) {
    if (!left--) break;
    due.delete(robot);
    const row = rows.get(robot);
    if (row) draw(row);
  }
  if (due.size) schedule();
  else if (sortDue) sort();
}

// -- alerts ---------------------------------------------------------------------------------------------------------

function alertOf(row) {
  const shown = alerts.get(row.robot);
  const key = row.alert ? `${row.alert.id} ${row.alert.choices} ${row.stopped}` : "";
  if (shown && shown.key === key) return;
  shown?.card.remove();
  alerts.delete(row.robot);
  if (!row.alert) return;
  const card = alertCard(row);
  alerts.set(row.robot, { card, key, since: row.alert.since_s });
  byId("alerts").append(card);
}

function drawAlerts() {
  say(byId("alerts-count"), alerts.size);
  byId("alerts-panel").classList.toggle("some", alerts.size > 0);
  byId("no-alerts").hidden = alerts.size > 0;
  for (const { card, since } of alerts.values()) say(card.querySelector(".since"), `for ${lasting(now_s - since)}`);
}

// -- robots ---------------------------------------------------------------------------------------------------------

function make(robot) {
  const row = element("div", "robot");
  row.setAttribute("role", "row");
  const cells = {};
  for (const name of ["name", "state", "rate", "room", "reason"]) {
    cells[name] = element("span", name);
    cells[name].setAttribute("role", "cell");
    row.append(cells[name]);
  }
  const link = element("a", "", robot);
  link.href = `#/robot/${encodeURIComponent(robot)}`;
  cells.task = element("small", "task");
  const look = element("button", "look");
  look.type = "button";
  look.setAttribute("aria-label", `Cameras of ${robot}`);
  const under = element("span", "under");
  under.append(cells.task, look);
  cells.name.append(link, under);
  cells.chip = element("span", "chip");
  cells.state.append(cells.chip);
  cells.actual = element("b");
  cells.planned = element("small");
  cells.rate.append(cells.actual, cells.planned);
  const strip = element("div", "strip"), pictures = element("div", "cameras");
  const none = element("p", "calm", "No picture yet. A robot that waits sends none.");
  strip.setAttribute("role", "cell");
  strip.append(pictures, none);
  row.append(strip);
  const cameras = new Cameras(pictures, look, none, ["cameras", "hide cameras"], () => inSight.has(robot) && !row.hidden && !document.hidden);
  cameras.of(robot);
  strip.hidden = true;
  look.addEventListener("click", () => { strip.hidden = look.getAttribute("aria-pressed") !== "true"; });
  const made = { row, cells, cameras, bars: [], rank: "" };
  drawn.set(robot, made);
  robotOf.set(row, robot);
  byId("robots").append(row);
  sight.observe(row);
  sortDue = true;
  return made;
}

export function toneOf(row) {
  if (row.silent) return "silent";
  if (row.stopped || row.alert) return "bad";
  return TONES[row.state] ?? "";
}

export const stateWords = (row) => (row.silent ? "silent" : row.stopped ? "emergency stop" : spaced(row.state));

function draw(row) {
  const made = drawn.get(row.robot) ?? make(row.robot);
  const { cells } = made;
  const tone = toneOf(row);
  if (made.row.dataset.tone !== tone) made.row.dataset.tone = tone;
  if (cells.chip.dataset.tone !== tone) cells.chip.dataset.tone = tone;
  say(cells.task, row.slot || row.task);
  say(cells.chip, stateWords(row));
  say(cells.actual, number(row.rate_hz, 2));
  say(cells.planned, row.planned_hz ? ` of ${number(row.planned_hz, 2)}` : "");
  say(cells.reason, row.reason);
  bars(made, row.deadlines);
  place(made, row);
}

// Where a row stands, and whether it is looked for, follow from its state, in sight or not.
function place(made, row) {
  const rank = rankOf(row);
  if (rank !== made.rank) { made.rank = rank; sortDue = true; }
  show(made, row);
}

const rankOf = (row) => `${row.alert ? 0 : row.silent || row.stopped ? 1 : 2 + (RANKS[row.state] ?? 6)}`.padStart(2, "0") + row.robot;

function bars(made, deadlines) {
  while (made.bars.length > deadlines.length) made.bars.pop().box.remove();
  while (made.bars.length < deadlines.length) made.bars.push(bar(made.cells.room));
  deadlines.forEach((one, index) => fill(made.bars[index], one));
}

function bar(parent) {
  const box = element("span", "bar");
  const name = element("small"), track = element("span", "track"), full = element("span", "full"), value = element("small", "value");
  track.append(full);
  box.append(name, track, value);
  parent.append(box);
  return { box, name, full, value };
}

function fill(one, deadline) {
  const left = room(deadline);
  const tone = left === null ? "none" : deadline[4] && left <= 0 ? "bad" : left < 0.1 ? "bad" : left < 0.25 ? "warn" : "good";
  say(one.name, deadline[0]);
  const width = `${Math.round(100 * Math.max(0, Math.min(1, left ?? 0)))}%`;
  if (one.full.style.width !== width) one.full.style.width = width;
  if (one.box.dataset.tone !== tone) one.box.dataset.tone = tone;
  say(one.value, left === null ? "–" : `${Math.round(left * 100)} %`);
  const words = `${deadline[0]}: ${left === null ? "no call yet" : `${Math.round(left * 100)} % left`} of ${whole(deadline[1])} ms, ${deadline[4]} missed`;
  if (one.box.title !== words) one.box.title = words;
}

function sort() {
  sortDue = false;
  const parent = byId("robots");
  const order = [...drawn.values()].sort((a, b) => (a.rank < b.rank ? -1 : 1));
  let next = parent.firstElementChild; // nodes that are in their place are not touched
  for (const { row } of order) {
    if (row === next) next = next.nextElementSibling;
    else parent.insertBefore(row, next);
  }
}

// -- finding --------------------------------------------------------------------------------------------------------

let wanted = "";
byId("filter").addEventListener("input", (event) => {
  wanted = event.target.value.trim().toLowerCase();
  for (const [robot, made] of drawn) show(made, rows.get(robot));
});

function show(made, row) {
  const hidden = wanted !== "" && !`${row.robot} ${row.task} ${stateWords(row)}`.toLowerCase().includes(wanted);
  if (made.row.hidden !== hidden) made.row.hidden = hidden;
}

// -- figures --------------------------------------------------------------------------------------------------------

export function drawTotals(totals) {
  now_s = totals.now_s;
  drawAlerts();
  say(byId("where"), totals.source ? `${totals.source} · ${totals.endpoint}` : "");
  say(byId("actions"), number(totals.actions_hz, 1));
  const planned = totals.schedule?.actions_hz;
  say(byId("actions-note"), planned ? `planned ${number(planned, 1)}` : `${whole(totals.actions)} since the start`);
  say(byId("tasks"), whole(totals.tasks.done ?? 0));
  const others = Object.entries(totals.tasks).filter(([name]) => name !== "done");
  say(byId("tasks-note"), others.map(([name, count]) => `${count} ${spaced(name)}`).join(", "));
  say(byId("robots-count"), whole(totals.robots));
  let silent = 0, stopped = 0, nearest = null;
  for (const row of rows.values()) {
    silent += row.silent;
    stopped += row.stopped;
    if (row.silent || row.alert) continue;
    for (const deadline of row.deadlines) {
      const left = room(deadline);
      if (left !== null && (nearest === null || left < nearest.left)) nearest = { left, robot: row.robot, component: deadline[0] };
    }
  }
  const notes = [[alerts.size, "waiting"], [stopped, "stopped"], [silent, "silent"]].filter(([count]) => count);
  say(byId("robots-note"), notes.map(([count, words]) => `${count} ${words}`).join(", ") || "all at work or idle");
  say(byId("nearest"), nearest ? `${Math.round(nearest.left * 100)} %` : "–");
  say(byId("nearest-note"), nearest ? `${nearest.component} of ${nearest.robot}, p99` : "");
  byId("no-robots").hidden = rows.size > 0;
  drawServers(totals.servers);
  drawSchedule(totals);
}

function drawServers(servers) {
  const body = byId("servers").tBodies[0];
  while (body.rows.length > servers.length) body.deleteRow(-1);
  servers.forEach((one, index) => {
    const row = body.rows[index] ?? addRow(body, 9);
    const cells = [...row.cells];
    say(cells[0], one.standby ? `${one.id} (standby)` : one.id);
    say(cells[1], one.model);
    say(cells[2], `${one.workers} of ${one.wanted}`);
    cells[2].dataset.tone = one.workers < one.wanted ? "bad" : "";
    say(cells[3], percent(one.utilisation));
    cells[3].dataset.tone = one.utilisation > 0.9 ? "warn" : "";
    say(cells[4], percent(one.fill));
    say(cells[5], whole(one.waiting));
    say(cells[6], one.waiting ? `${whole(one.oldest_ms)} ms` : "–");
    say(cells[7], whole(one.streams));
    say(cells[8], whole(one.epoch));
  });
}

function addRow(body, columns) {
  const row = body.insertRow();
  for (let column = 0; column < columns; column++) row.insertCell();
  return row;
}

function drawSchedule({ schedule, servers, epoch }) {
  const box = byId("schedule");
  const busiest = servers.filter((one) => one.utilisation !== null).sort((a, b) => b.utilisation - a.utilisation)[0];
  const live = busiest && busiest.utilisation > 0.05 ? `Busiest now: ${busiest.id}, ${percent(busiest.utilisation)}.` : "";
  const words = schedule
    ? [`Schedule ${schedule.file}, epoch ${whole(epoch)}: ${number(schedule.actions_hz, 1)} actions/s planned.`, ...(schedule.limits ?? []).map((one) => `What limits it: ${one}`), live]
    : ["No schedule: every model serves any robot as it comes.", live];
  const wanted = words.filter(Boolean);
  if (box.dataset.words === wanted.join("\n")) return;
  box.dataset.words = wanted.join("\n");
  box.replaceChildren(...wanted.map((one) => element("p", "note", one)));
}

// -- logs -----------------------------------------------------------------------------------------------------------

function line(list, empty, parts, tone) {
  const one = element("li", "", "");
  one.dataset.tone = tone;
  one.append(...parts);
  byId(list).prepend(one);
  while (byId(list).children.length > MAX_LINES) byId(list).lastElementChild.remove();
  byId(empty).hidden = true;
}

export function addAudit(one) {
  const who = `${one.decided_by || "somebody"}: ${titled(one.choice).toLowerCase()}`;
  const result = one.accepted ? "" : ` – not taken: ${one.reason}`;
  line("audit", "no-audit", [element("time", "", clock(one.wall_s)), element("b", "", one.robot), element("span", "", `${who}${result}`), element("q", "why", one.why || "no reason given")], one.accepted ? "good" : "bad");
}

export function addEvent(one) {
  const words = { robot_joined: "joined", robot_left: "left", refused: "refused" }[one.event] ?? spaced(one.event);
  const more = [one.task, one.cause, one.reason].filter(Boolean).join(": ");
  line("events", "no-events", [element("time", "", clock(one.wall_s)), element("b", "", one.robot || "somebody"), element("span", "", `${words}${more ? ` – ${more}` : ""}`)], one.event === "refused" ? "bad" : "");
}
