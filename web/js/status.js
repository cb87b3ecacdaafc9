// What the viewer is told of the connection: state, latency, people online, and one line where something
// happened that matters.

import { count, onLanguage, text, textOrNull } from "./i18n.js";

const PING_MS = 5_000;
// A page that has just begun is busy with itself, and would measure that.
const FIRST_PING_MS = 1_000;
const BACK_MS = 4_000;
// A break shorter than this is not worth a line.
const BREAK_MS = 300;

export class Status {
  #parts;
  #session = null;
  #state = { state: "connecting" };
  #online = 0;
  #retryAt = null;
  // What the line says: {key, fill, kind, action}, or null.
  #banner = null;
  #timer = null;
  #wasOpen = false;
  #breaking = null;

  /** `parts` are elements: state, stateText, online, latency, banner, bannerText, bannerAction, bannerClose. */
  constructor(parts) {
    this.#parts = parts;
    parts.bannerClose.addEventListener("click", () => this.say(null));
    onLanguage(() => this.#show());
    setInterval(() => this.#ping(), PING_MS);
  }

  /** Follows `session`; `again` starts another one where this one has ended for good. */
  follow(session, again) {
    this.#session = session;
    this.#parts.bannerAction.onclick = again;
    session.on("state", (state) => this.#changed(state));
    session.on("joined", (joined) => this.#joined(joined));
    session.on("room", ({ online }) => {
      this.#online = online;
      this.#show();
    });
    // A loss that is told of later takes the good news back; the list says what is missing.
    session.on("gap", () => this.#banner?.key === "banner_back" && this.say(null));
    session.on("reset", ({ reason }) => {
      if (reason === "lost") this.say({ key: "banner_lost", kind: "warning" });
    });
  }

  /** Shows one line: {key, fill, kind: "warning" | "good" | "bad", action}, or none for null. */
  say(banner) {
    clearInterval(this.#timer);
    this.#timer = null;
    this.#banner = banner;
    this.#show();
  }

  #joined({ online = 0, recovered }) {
    this.#online = online;
    const broke = this.#wasOpen && ["banner_waiting", "banner_connecting"].includes(this.#banner?.key);
    this.#wasOpen = true;
    if (broke && recovered) {
      this.say({ key: "banner_back", kind: "good" });
      this.#timer = setTimeout(() => this.say(null), BACK_MS);
    } else if (broke) this.say(null);
    this.#show();
    setTimeout(() => this.#ping(), FIRST_PING_MS);
  }

  #changed(state) {
    this.#state = state;
    clearTimeout(this.#breaking);
    if (state.state === "waiting") {
      this.#retryAt = performance.now() + state.retryInMs;
      this.#breaking = setTimeout(() => this.#count(), this.#wasOpen ? BREAK_MS : 0);
    } else if (state.state === "connecting" && this.#banner?.key === "banner_waiting") {
      this.say({ key: "banner_connecting", kind: "warning" });
    } else if (state.state === "closed") {
      const reason = { code: state.code };
      this.say({ key: "banner_closed", fill: reason, kind: "bad", action: true });
    }
    this.#show();
  }

  // Counts down to the next attempt.
  #count() {
    const say = () => {
      const left = Math.max(0, this.#retryAt - performance.now());
      this.#banner = { key: "banner_waiting", fill: { seconds: Math.ceil(left / 1000) }, kind: "warning" };
      this.#show();
    };
    clearInterval(this.#timer);
    say();
    this.#timer = setInterval(say, 500);
  }

  async #ping() {
    if (document.hidden || this.#session?.state !== "open") return;
    try {
      await this.#session.ping();
      this.#show();
    } catch {
      // A connection that does not answer is told of as a change of state.
    }
  }

  #show() {
    const { state, stateText, online, latency, banner, bannerText, bannerAction } = this.#parts;
    state.dataset.state = this.#state.state;
    const name = text(`state_${this.#state.state}`);
    if (stateText.textContent !== name) stateText.textContent = name;
    online.textContent = count(this.#online);
    const ms = this.#state.state === "open" ? this.#session?.latencyMs : null;
    latency.textContent = ms == null ? "– ms" : `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
    banner.hidden = this.#banner === null;
    if (this.#banner === null) return;
    const { key, fill = {}, kind, action = false } = this.#banner;
    banner.dataset.kind = kind;
    const code = fill.code;
    const reason = code === undefined ? {} : { reason: textOrNull(`close_${code}`) ?? text("close_unknown", { code }) };
    const said = text(key, { ...fill, ...reason });
    if (bannerText.textContent !== said) bannerText.textContent = said;
    bannerAction.hidden = !action;
  }
}
