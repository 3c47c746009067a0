// What a robot's cameras show: asked for once a second while somebody looks, and never shown as new when it is old.

import { byId, element, say } from "./format.js";

const EVERY_MS = 1000, OLD_S = 3;
let robot = "", token = "", looking = false, timer = 0;

// Another robot, or none: nobody looks at it yet.
export function lookAt(name, signed) {
  robot = name;
  token = signed;
  look(false);
}

function look(yes) {
  looking = yes;
  clearInterval(timer);
  const button = byId("cameras-show");
  button.setAttribute("aria-pressed", String(yes));
  say(button, yes ? "Hide" : "Show");
  byId("cameras").replaceChildren();
  byId("no-cameras").hidden = false;
  if (yes) {
    load();
    timer = setInterval(load, EVERY_MS);
  }
}

byId("cameras-show").addEventListener("click", () => look(!looking));

async function load() {
  const asked = robot;
  try {
    const answer = await fetch(`api/pictures?name=${encodeURIComponent(asked)}`, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok || asked !== robot || !looking) return;
    draw((await answer.json()).cameras);
  } catch { age(); }
}

function draw(cameras) {
  byId("no-cameras").hidden = cameras.length > 0;
  const place = byId("cameras");
  for (const one of cameras) {
    let figure = [...place.children].find((child) => child.dataset.camera === one.camera);
    if (!figure) {
      figure = element("figure", "camera");
      figure.dataset.camera = one.camera;
      const image = element("img");
      image.alt = `What the camera ${one.camera} of ${robot} shows`;
      figure.append(image, element("figcaption"));
      place.append(figure);
    }
    figure.firstChild.src = one.data;
    figure.dataset.seen = String(performance.now() - one.age_s * 1000);
    figure.dataset.size = `${one.width} × ${one.height}`;
  }
  age();
}

function age() {
  for (const figure of byId("cameras").children) {
    const seconds = (performance.now() - Number(figure.dataset.seen)) / 1000;
    figure.dataset.old = String(seconds > OLD_S);
    say(figure.lastChild, `${figure.dataset.camera}, ${figure.dataset.size}, ${seconds > OLD_S ? `${seconds.toFixed(0)} s old` : "now"}`);
  }
}
