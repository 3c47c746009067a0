// Numbers and words as people read them. Whatever a robot says becomes text here, and nothing but text.

export const TITLES = {
  recover_arm: "Recover the arm",
  resume: "Resume",
  retry: "Retry from the start",
  return_to_safe_state: "Move to the safe pose",
  abort: "Abort the task",
  emergency_stop: "Emergency stop",
  release_emergency_stop: "Release emergency stop",
};

export const spaced = (words) => String(words).replaceAll("_", " ");
export const titled = (choice) => TITLES[choice] ?? spaced(choice);

export function number(value, digits = 1) {
  if (value === null || value === undefined || !Number.isFinite(Number(value))) return "–";
  return Number(value).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export const whole = (value) => number(value, 0);
export const percent = (share) => (share === null || share === undefined ? "–" : `${whole(share * 100)} %`);

export function lasting(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
  return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
}

export const clock = (wall_s) => new Date(wall_s * 1000).toLocaleTimeString("en-GB");

// The share of a deadline that is left, by the p99 of its calls; null while no call has ended.
export function room([, slo_ms, last_ms, p99_ms, missed, in_time]) {
  if (!slo_ms || (!in_time && !missed)) return null;
  if (!in_time) return 0;
  return Math.max(-1, 1 - (p99_ms || last_ms) / slo_ms);
}

export function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = text;
  return made;
}

// Sets a text only where it changed: the browser then has nothing to lay out again.
export function say(node, text) {
  const words = String(text);
  if (node.textContent !== words) node.textContent = words;
}

export const byId = (id) => document.getElementById(id);
