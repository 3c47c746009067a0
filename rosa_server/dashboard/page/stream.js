// The stream of events, with the token in a header: EventSource could not send one. It says when nothing comes.

const SILENT_MS = 1500; // the server says something four times a second
const AGAIN_MS = [200, 500, 1000, 2000];

export class Stream {
  #token = ""; #heard = 0; #tries = 0; #stop = null; #told = "";

  constructor(onMessage, onLink, onRefused) {
    this.onMessage = onMessage; this.onLink = onLink; this.onRefused = onRefused;
    setInterval(() => this.#check(), 250);
  }

  begin(token) {
    this.#token = token;
    this.#stop?.abort();
    this.#run();
  }

  get silentMs() { return performance.now() - this.#heard; }

  async #run() {
    const stop = (this.#stop = new AbortController());
    try {
      const answer = await fetch("api/stream", {
        headers: { Authorization: `Bearer ${this.#token}` }, signal: stop.signal, cache: "no-store",
      });
      if (answer.status === 401) return this.onRefused((await answer.json()).reason);
      if (!answer.ok) throw new Error((await answer.json()).reason ?? `status ${answer.status}`);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let kept = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        kept += value;
        for (let end; (end = kept.indexOf("\n\n")) >= 0; kept = kept.slice(end + 2)) {
          if (kept.startsWith("data: ")) this.#hear(JSON.parse(kept.slice(6, end)));
        }
      }
    } catch (error) {
      if (stop.signal.aborted) return;
      console.info("stream:", error.message);
    }
    if (stop.signal.aborted) return;
    setTimeout(() => { if (!stop.signal.aborted) this.#run(); }, AGAIN_MS[Math.min(this.#tries++, AGAIN_MS.length - 1)]);
  }

  #hear(message) {
    this.#heard = performance.now();
    this.#tries = 0;
    this.onMessage(message);
    this.#check();
  }

  #check() {
    if (!this.#token) return;
    const live = this.#heard > 0 && this.silentMs < SILENT_MS;
    const state = live ? "live" : this.#heard > 0 ? "disconnected" : "connecting";
    if (state !== "live" || state !== this.#told) this.onLink(state, this.silentMs / 1000);
    this.#told = state;
  }
}
