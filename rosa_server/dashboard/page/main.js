// Wires the page together: who looks, what comes down the stream, which view is shown, and whether it is stale.

import { signedWith } from "./cameras.js";
import { Chart } from "./chart.js";
import * as decide from "./decide.js";
import { byId, lasting, say } from "./format.js";
import * as overview from "./overview.js";
import * as robot from "./robot.js";
import { Stream } from "./stream.js";

const KEPT = "rosa-token";
const charts = { actions: new Chart("chart-actions", 1), tasks: new Chart("chart-tasks") };
let totals = null, link = "connecting";

const stream = new Stream(
  (message) => {
    if (message.whole) {
      overview.clearRows();
      for (const id of ["audit", "events"]) byId(id).replaceChildren();
      for (const chart of Object.values(charts)) chart.clear();
    }
    totals = message.totals;
    for (const name of message.gone) overview.forget(name);
    for (const row of message.rows) overview.changed(row);
    for (const one of message.audits) overview.addAudit(one);
    for (const one of message.events) overview.addEvent(one);
    charts.actions.add(message.points, 1);
    charts.tasks.add(message.points, 2);
    overview.drawTotals(totals);
    robot.drawRobot();
    drawLink();
    if (byId("sign-in").hidden === false || document.body.dataset.link === "connecting") route();
  },
  (state, silent_s) => { link = state; drawLink(silent_s); },
  (reason) => { sessionStorage.removeItem(KEPT); signIn(reason); },
);

// A figure that may be old must not look as if it were new.
function drawLink(silent_s = 0) {
  const gone = totals !== null && totals.lost;
  const state = link === "live" && gone ? "lost" : link;
  document.body.dataset.link = state;
  const words = { live: "live", connecting: "connecting", disconnected: `disconnected for ${lasting(silent_s)}`, lost: totals?.heard ? `server silent for ${lasting(totals.silent_s)}` : "waiting for the server" };
  say(byId("link-text"), words[state]);
  const banner = byId("banner");
  const problem = state === "disconnected" ? "Disconnected from the dashboard. What you see is old." : state === "lost" ? "The server does not answer. What you see is old." : totals?.problem ?? "";
  banner.hidden = !problem;
  say(banner, problem);
  document.title = state === "live" ? title() : `(!) ROSA ${words[state]}`;
}

function title() {
  const waiting = Number(byId("alerts-count").textContent);
  return waiting ? `(${waiting}) ROSA` : "ROSA";
}

function signIn(problem = "") {
  byId("overview").hidden = byId("robot").hidden = true;
  byId("sign-in").hidden = false;
  byId("sign-in-problem").textContent = problem;
  byId("token").focus();
}

function begin(token) {
  sessionStorage.setItem(KEPT, token);
  decide.signedWith(token);
  robot.signedWith(token);
  signedWith(token);
  stream.begin(token);
}

byId("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = byId("token").value.trim();
  byId("token").value = "";
  if (token) begin(token);
});

// -- which view -------------------------------------------------------------------------------------------------------

function route() {
  const found = /^#\/robot\/(.+)$/.exec(location.hash);
  let name = "";
  try { name = found ? decodeURIComponent(found[1]) : ""; } catch { name = ""; }
  byId("sign-in").hidden = true;
  const before = byId("robot").hidden;
  byId("overview").hidden = Boolean(name);
  byId("robot").hidden = !name;
  robot.showRobot(name);
  if (before === Boolean(name)) { scrollTo(0, 0); byId("main").focus({ preventScroll: true }); }
  for (const chart of Object.values(charts)) chart.redraw();
}

addEventListener("hashchange", () => { if (!takeToken()) route(); });
addEventListener("resize", () => robot.drawTimeline());

byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("rosa-theme", root.dataset.theme);
  for (const chart of Object.values(charts)) chart.redraw();
  robot.drawTimeline();
});

// The token is in the part of the address that no browser sends; it does not stay there, nor in the history.
function takeToken() {
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (!given) return false;
  history.replaceState(null, "", location.pathname);
  begin(given[1]);
  return true;
}

if (!takeToken()) {
  const kept = sessionStorage.getItem(KEPT);
  if (kept) begin(kept);
  else signIn();
}
