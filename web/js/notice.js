// The line beside the comment field: what became of a comment, with a countdown where the server names a time.

import { onLanguage, text, textOrNull } from "./i18n.js";

const TICK_MS = 100;
// So much of a text that was not sent is shown, to know which one it was.
const QUOTE_MAX = 24;

/** `box` holds an element for words and a button; `restored` gets a text that the viewer wants back. */
export class Notice {
  #box;
  #words;
  #restore;
  #timer = null;
  #state = null;

  constructor(box, restored) {
    this.#box = box;
    [this.#words, this.#restore] = box.children;
    this.#restore.addEventListener("click", () => {
      const lost = this.#state?.lost;
      this.clear();
      if (lost !== undefined) restored(lost);
    });
    onLanguage(() => this.#show());
  }

  /** Says `key`; `error` is a DanmakuError; `lost` a text that could not be put back by itself. */
  say({ key, error, lost }) {
    this.clear();
    const until = error?.retryAfterMs ? performance.now() + error.retryAfterMs : null;
    this.#state = { key, error, lost, until };
    if (until !== null) this.#timer = setInterval(() => this.#show(), TICK_MS);
    this.#show();
  }

  clear() {
    clearInterval(this.#timer);
    this.#state = null;
    this.#show();
  }

  /** Whether the named time is not over yet. */
  get waits() {
    return this.#state?.until != null && performance.now() < this.#state.until;
  }

  #show() {
    this.#box.hidden = this.#state === null;
    if (this.#state === null) return;
    const { key, error, lost, until } = this.#state;
    const parts = [];
    if (key) parts.push(text(key));
    if (error) parts.push(textOrNull(`error_${error.code}`) ?? text("error_unknown", { code: error.code }));
    if (lost !== undefined) parts.push(text("not_sent", { text: Array.from(lost).slice(0, QUOTE_MAX).join("") }));
    if (until !== null) {
      const left = until - performance.now();
      if (left > 0) parts.push(text("try_in", { seconds: (Math.ceil(left / 100) / 10).toFixed(1) }));
      else parts.push(text("try_now"));
      if (left <= 0) clearInterval(this.#timer);
    }
    this.#box.dataset.kind = error ? "error" : "note";
    this.#restore.hidden = lost === undefined;
    const said = parts.join(" ");
    if (this.#words.textContent !== said) this.#words.textContent = said;
  }
}
