// A person decides: what, about which alert, and why. The robot judges; the page says what came of it.

import { byId, element, spaced, titled } from "./format.js";

const dialog = byId("decide");
const sent = new Set(); // what was asked and is not answered: one robot does not wait for another
let asked = null, token = "";

export function signedWith(value) { token = value; }

export function ask(robot, choice, alert) {
  asked = { robot, choice, alert: alert?.id ?? 0 };
  byId("decide-title").textContent = `${titled(choice)}: ${robot}`;
  byId("decide-about").textContent = alert ? `${spaced(alert.cause)}: ${alert.reason}` : about(choice);
  byId("decide-yes").textContent = titled(choice);
  byId("decide-yes").className = ["emergency_stop", "abort"].includes(choice) ? "danger" : "primary";
  byId("decide-yes").disabled = false;
  byId("decide-problem").textContent = "";
  byId("why").value = "";
  dialog.showModal();
  byId("why").focus();
}

function about(choice) {
  return choice === "emergency_stop"
    ? "The arm stops and stays where it is until somebody releases it."
    : "Nothing moves by this alone; an alert that is open stays open.";
}

async function send() {
  const mine = asked, why = byId("why").value.trim();
  if (!why || sent.has(mine)) return;
  sent.add(mine);
  byId("decide-yes").disabled = true;
  byId("decide-problem").textContent = "";
  try {
    const answer = await fetch("api/decide", {
      method: "POST", cache: "no-store", signal: AbortSignal.timeout(10_000),
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ ...mine, why }),
    });
    const told = await answer.json();
    if (told.accepted) {
      if (asked === mine) dialog.close();
      toast(`${mine.robot}: ${titled(mine.choice).toLowerCase()}: taken`, "good");
    } else {
      failed(mine, `Not taken: ${told.reason}`);
    }
  } catch {
    failed(mine, "The dashboard did not answer. Look at the robot before you decide again.");
  } finally {
    sent.delete(mine);
    if (asked === mine) byId("decide-yes").disabled = false;
  }
}

// The dialog may be about another robot by now, or closed.
function failed(mine, words) {
  if (asked === mine && dialog.open) byId("decide-problem").textContent = words;
  else toast(`${mine.robot}: ${words}`, "bad");
}

byId("decide-form").addEventListener("submit", (event) => { event.preventDefault(); send(); });
byId("decide-no").addEventListener("click", () => dialog.close());

export function toast(words, tone = "") {
  const one = element("p", `toast ${tone}`, words);
  byId("toasts").append(one);
  setTimeout(() => one.remove(), 6000);
}

// The card of one alert: who waits, why, since when, and what may be decided.
export function alertCard(row) {
  const card = element("article", "alert");
  const head = element("div", "alert-head");
  const name = element("a", "alert-robot", row.robot);
  name.href = `#/robot/${encodeURIComponent(row.robot)}`;
  head.append(name, element("span", "cause", spaced(row.alert.cause)), element("span", "since", ""));
  const buttons = element("div", "actions");
  const [first] = row.alert.choices; // the robot names first what helps most, such as recover_arm
  for (const choice of row.alert.choices) {
    if (row.stopped && choice !== "abort") continue;
    const button = element("button", choice === "abort" ? "danger quiet-danger" : choice === first ? "primary" : "", titled(choice));
    button.type = "button";
    button.dataset.choice = choice;
    button.setAttribute("aria-label", `${titled(choice)}: ${row.robot}`);
    button.addEventListener("click", () => ask(row.robot, choice, row.alert));
    buttons.append(button);
  }
  if (row.stopped) {
    const release = element("button", "", titled("release_emergency_stop"));
    release.type = "button";
    release.addEventListener("click", () => ask(row.robot, "release_emergency_stop", null));
    buttons.prepend(release);
  }
  card.append(head, element("p", "reason", row.alert.reason), buttons);
  return card;
}
