// A line over time, drawn by uPlot in the colours of the page.

import { byId } from "./format.js";

const KEPT = 900; // points, one a second
const WHOLE = [1, 2, 5].flatMap((step) => [0, 1, 2, 3, 4, 5].map((power) => step * 10 ** power)).sort((a, b) => a - b); // between two lines

export class Chart {
  #data = [[], []]; #plot = null; #box; #digits; #due = false;

  constructor(id, digits = 0) {
    this.#box = byId(id);
    this.#digits = digits;
    new ResizeObserver(() => this.#resize()).observe(this.#box);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.redraw());
  }

  add(points, column) {
    for (const point of points) {
      this.#data[0].push(point[0]);
      this.#data[1].push(point[column]);
    }
    for (const one of this.#data) one.splice(0, Math.max(0, one.length - KEPT));
    if (points.length && !this.#due) {
      this.#due = true;
      requestAnimationFrame(() => { this.#due = false; this.#draw(); });
    }
  }

  clear() { this.#data = [[], []]; this.#draw(); }

  redraw() { this.#plot?.destroy(); this.#plot = null; this.#draw(); }

  #draw() {
    if (!this.#box.clientWidth) return;
    if (this.#plot) this.#plot.setData(this.#data);
    else this.#plot = new uPlot(this.#options(), this.#data, this.#box);
  }

  #resize() {
    if (this.#plot) this.#plot.setSize({ width: this.#box.clientWidth, height: this.#box.clientHeight });
    else this.#draw();
  }

  #options() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    return {
      width: this.#box.clientWidth, height: this.#box.clientHeight, legend: { show: false },
      cursor: { y: false, drag: { setScale: false } },
      scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.15)] } },
      axes: [
        { ...axis, values: "{HH}:{mm}:{ss}", space: 80, size: 24 },
        { ...axis, size: 44, ...(this.#digits ? {} : { incrs: WHOLE }), values: (_, all) => all.map((v) => v.toFixed(this.#digits && v < 10 ? 1 : 0)) },
      ],
      series: [{}, { stroke: colour("--accent"), fill: colour("--accent-soft"), width: 2, points: { show: false } }],
    };
  }
}
