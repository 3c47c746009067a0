// What a robot's cameras show: asked for once a second while somebody looks, and never shown as new when it is old.

import { element, say } from "./format.js";

const EVERY_MS = 1000, OLD_S = 3;
let token = "", turn = Promise.resolve(); // pictures are asked for one robot at a time: a browser has six connections, and decisions need one

export function signedWith(value) { token = value; }

// The pictures of one robot in `place`, while `button` is pressed. `empty`: what stands there without pictures.
// `words`: of the button, before and while somebody looks. `seen`: whether anybody can see them.
export class Cameras {
  #robot = ""; #looking = false; #timer = 0; #asks = false;

  constructor(place, button, empty, words = ["Show", "Hide"], seen = () => !document.hidden) {
    this.place = place; this.button = button; this.empty = empty; this.words = words; this.seen = seen;
    button.addEventListener("click", () => this.look(!this.#looking));
  }

  // Another robot, or none: nobody looks at it yet.
  of(robot) {
    this.#robot = robot;
    this.look(false);
  }

  look(yes) {
    this.#looking = yes;
    clearInterval(this.#timer);
    this.button.setAttribute("aria-pressed", String(yes));
    this.place.replaceChildren();
    say(this.button, this.words[Number(yes)]);
    this.empty.hidden = false;
    if (!yes) return;
    this.#load();
    this.#timer = setInterval(() => this.#load(), EVERY_MS);
  }

  #load() {
    this.#age();
    if (this.#asks || !this.seen()) return;
    this.#asks = true;
    turn = turn.then(() => this.#ask()).finally(() => { this.#asks = false; });
  }

  async #ask() {
    if (!this.#looking) return;
    const asked = this.#robot;
    try {
      const answer = await fetch(`api/pictures?name=${encodeURIComponent(asked)}`, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store", signal: AbortSignal.timeout(5000) });
      const { cameras } = answer.ok ? await answer.json() : {};
      if (cameras && asked === this.#robot && this.#looking) this.#draw(cameras);
    } catch { this.#age(); }
  }

  #draw(cameras) {
    this.empty.hidden = cameras.length > 0;
    for (const one of cameras) {
      let figure = [...this.place.children].find((child) => child.dataset.camera === one.camera);
      if (!figure) {
        figure = element("figure", "camera");
        figure.dataset.camera = one.camera;
        const image = element("img");
        image.alt = `What the camera ${one.camera} of ${this.#robot} shows`;
        figure.append(image, element("figcaption"));
        this.place.append(figure);
      }
      figure.firstChild.src = one.data;
      figure.dataset.seen = String(performance.now() - one.age_s * 1000);
      figure.dataset.size = `${one.width} × ${one.height}`;
    }
    this.#age();
  }

  #age() {
    for (const figure of this.place.children) {
      const seconds = (performance.now() - Number(figure.dataset.seen)) / 1000;
      figure.dataset.old = String(seconds > OLD_S);
      say(figure.lastChild, `${figure.dataset.camera}, ${figure.dataset.size}, ${seconds > OLD_S ? `${seconds.toFixed(0)} s old` : "now"}`);
    }
  }
}
