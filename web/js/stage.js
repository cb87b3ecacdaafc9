// The picture's upper layer: decides what flies and hands it to the worker that draws.
//
// In come items of the session and the viewer's settings. Owns the canvas and the worker. The worker gets
// text, colours and sizes, never markup.
//
// For measuring: `import("/js/main.js")` gives the page's own `stage`; `stage.show(item, {own: false,
// urgent: true})` lets a comment fly past the density, `stage.count()` tells how many fly and how many frames
// were drawn. web/bench/frames.mjs does so.

import { Density, SHARES } from "./density.js";

// A comment crosses the picture in so long, at speed 1.
const FLIGHT_S = 8;
const AREAS = { full: 1, half: 0.5, quarter: 0.25 };
// Texts are sized for a picture this wide, within limits of what can still be read.
const WIDTH_PX_NORMAL = 1_000;
const ZOOM_MIN = 0.72;
const ZOOM_MAX = 1.3;
const SIZE_MIN = 12;
const SIZE_MAX = 64;
const SIZE_NORMAL = 25;
const LINE_HEIGHT = 1.36;
const PRIVILEGED = new Set(["vip", "moderator", "streamer", "staff"]);

// About as wide as it will be drawn: wide letters count one, others a bit more than half.
function widthOf(text, px) {
  let width = 0;
  for (const letter of text) width += letter.codePointAt(0) > 0x2e7f ? 1 : 0.56;
  return width * px;
}

export class Stage {
  #box;
  #worker = null;
  #density = new Density();
  #settings = { density: "normal", area: "full", opacity: 100, scale: 100, speed: 100 };
  #on = true;
  #still = matchMedia("(prefers-reduced-motion: reduce)");
  #ratio = devicePixelRatio;
  #counting = null;

  /** Draws into `box`, an element that fills the picture. */
  constructor(box) {
    this.#box = box;
    this.#open();
    new ResizeObserver(() => this.#fit()).observe(box.parentElement);
  }

  /** Whether this browser can draw in a worker; otherwise comments are in the list only. */
  static get supported() {
    return "transferControlToOffscreen" in HTMLCanvasElement.prototype && "Worker" in globalThis;
  }

  #open() {
    if (!Stage.supported) return;
    this.#worker?.terminate();
    this.#worker = new Worker(new URL("flight.js", import.meta.url), { type: "module" });
    this.#worker.onmessage = ({ data }) => this.#counting?.(data);
    const canvas = document.createElement("canvas");
    this.#box.replaceChildren(canvas);
    const drawn = canvas.transferControlToOffscreen();
    this.#worker.postMessage(["open", { canvas: drawn, ...this.#pixels() }], [drawn]);
    this.#fit();
  }

  #pixels() {
    const { width, height } = this.#box.getBoundingClientRect();
    return { width: Math.round(width * this.#ratio), height: Math.round(height * this.#ratio) };
  }

  #zoom() {
    const zoom = this.#box.clientWidth / WIDTH_PX_NORMAL;
    return Math.min(ZOOM_MAX, Math.max(ZOOM_MIN, zoom)) * (this.#settings.scale / 100);
  }

  #order(order, what) {
    this.#worker?.postMessage([order, what]);
  }

  #fit() {
    this.#ratio = devicePixelRatio;
    const { area, opacity, speed, density } = this.#settings;
    this.#box.style.height = `${AREAS[area] * 100}%`;
    this.#box.style.opacity = String(opacity / 100);
    const seconds = (FLIGHT_S * 100) / speed;
    this.#order("resize", this.#pixels());
    this.#order("pace", { seconds });
    const lines = Math.max(1, Math.floor(this.#box.clientHeight / (SIZE_NORMAL * LINE_HEIGHT * this.#zoom())));
    const pxPerSecond = this.#box.clientWidth / seconds;
    this.#density.configure({ lines, pxPerSecond, share: SHARES[density] }, performance.now());
  }

  /** Takes over the viewer's settings (settings.js); what flies goes on at the new pace. */
  apply(settings) {
    this.#settings = { ...this.#settings, ...settings };
    this.#fit();
  }

  /** Turns the flight on or off. */
  set on(on) {
    this.#on = on;
    this.#order(on ? "show" : "hide");
  }

  get on() {
    return this.#on;
  }

  /** Lets a comment fly; own ones, those of the privileged and urgent ones always do, others as the density admits. */
  show({ seq, text, mode, color, size, user }, { own = false, urgent = false, epoch } = {}) {
    // What a hidden page let fly would all be there at once when it shows.
    if (!this.#on || document.hidden) return;
    // Who asked for no motion gets standing lines.
    const stands = this.#still.matches ? "top" : mode;
    const px = Math.min(SIZE_MAX, Math.max(SIZE_MIN, size)) * this.#zoom();
    // A standing comment keeps its line for as long as a flying one takes to cross the whole picture.
    const takes = stands === "scroll" ? widthOf(text, px) + px : this.#box.clientWidth;
    const passes = own || urgent || PRIVILEGED.has(user?.role);
    if (!passes && !this.#density.admits(takes, performance.now())) return;
    this.#order("fly", { seq, epoch, text, mode: stands, color, own, px: Math.round(px * this.#ratio) });
  }

  /** Takes comments out of the air: a `remove` of the session. */
  remove(removal) {
    this.#order("remove", removal);
  }

  clear() {
    this.#order("clear");
  }

  /** A promise of {flying, frames}: comments in the air, and frames drawn since the page was opened. */
  count() {
    const counted = new Promise((resolve) => (this.#counting = resolve));
    this.#order("count");
    return counted;
  }
}
