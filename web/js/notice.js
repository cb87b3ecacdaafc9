// The line beside the comment field: what became of a comment, with a countdown where the server names a time.

import { onLanguage, text, textOrNull } from "./i18n.js";

const TICK_MS = 100;
// So much of a text that was not sent is shown, to know which one it was.
const QUOTE_MAX = 24;
// Texts that wait to be put back; who types so many into refusals has lost interest in the first.
const LOST_MAX = 10;

/** `box` holds an element for words and a button; `restored` gets a text that the viewer wants back. */
export class Notice {
  #box;
  #words;
  #restore;
  #timer = null;
  // What is said: {key, error, until}, or null.
  #state = null;
  // Texts that were not sent and had no place to go back to, oldest first.
  #lost = [];

  constructor(box, restored) {
    this.#box = box;
    [this.#words, this.#restore] = box.children;
    this.#restore.addEventListener("click", () => {
      const first = this.#lost.shift();
      restored(first);
      this.clear();
    });
    onLanguage(() => this.#show());
  }

  /** Says `key`, or what `error`, a DanmakuError, means. */
  say({ key, error }) {
    clearInterval(this.#timer);
    const until = error?.retryAfterMs ? performance.now() + error.retryAfterMs : null;
    this.#state = { key, error, until };
    if (until !== null) this.#timer = setInterval(() => this.#show(), TICK_MS);
    this.#show();
  }

  /** Offers a text that was not sent to be put back. */
  offer(lost) {
    this.#lost.push(lost);
    if (this.#lost.length > LOST_MAX) this.#lost.shift();
    this.#show();
  }

  /** Says nothing any more; what is offered stays. */
  clear() {
    clearInterval(this.#timer);
    this.#state = null;
    this.#show();
  }

  /** Whether the time that the server named is not over yet. */
  get waits() {
    return this.#state?.until != null && performance.now() < this.#state.until;
  }

  #show() {
    const parts = [...this.#reason(), ...this.#offered()];
    this.#box.hidden = parts.length === 0;
    this.#box.dataset.kind = this.#state?.key ? "note" : "error";
    this.#restore.hidden = this.#lost.length === 0;
    const said = parts.join(text("between_sentences"));
    if (this.#words.textContent !== said) this.#words.textContent = said;
  }

  #reason() {
    const { key, error, until } = this.#state ?? {};
    const parts = [];
    if (key) parts.push(text(key));
    if (error) parts.push(textOrNull(`error_${error.code}`) ?? text("error_unknown", { code: error.code }));
    if (until == null) return parts;
    const left = until - performance.now();
    if (left <= 0) clearInterval(this.#timer);
    if (left <= 0) return [...parts, text("try_now")];
    return [...parts, text("try_in", { seconds: (Math.ceil(left / TICK_MS) * TICK_MS / 1000).toFixed(1) })];
  }

  #offered() {
    if (this.#lost.length === 0) return [];
    const fill = { text: Array.from(this.#lost[0]).slice(0, QUOTE_MAX).join(""), count: this.#lost.length - 1 };
    return [text(this.#lost.length === 1 ? "not_sent" : "not_sent_more", fill)];
  }
}
