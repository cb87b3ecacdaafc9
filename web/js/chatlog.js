// The list of what was said: bounded, newest last, standing still while the viewer has scrolled up.
//
// Texts of others become text nodes and nothing else, each isolated from the writing direction of its line.

import { count, onLanguage, text, textOrNull, timeOfDay } from "./i18n.js";

const LINES_MAX = 300;
// So near to the end counts as being there.
const END_PX = 24;

function element(name, className, content = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = content;
  return made;
}

// The same hue for the same user, everywhere.
function hueOf(id) {
  let hash = 7;
  for (const letter of id) hash = (hash * 31 + letter.codePointAt(0)) % 360;
  return hash;
}

function plain(value, otherwise) {
  return typeof value === "string" || typeof value === "number" ? value : otherwise;
}

export class Chatlog {
  #list;
  #newer;
  #empty;
  #pinned;
  // Lines on the page and, while it stands still, those that wait, oldest first: {line, seq, epoch, item, own}.
  #shown = [];
  #waiting = [];
  #missed = 0;
  #pinnedText = null;
  #following = true;
  #scheduled = false;
  #blocks = () => false;

  constructor({ list, newer, empty, pinned }) {
    this.#list = list;
    this.#newer = newer;
    this.#empty = empty;
    this.#pinned = pinned;
    list.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    newer.addEventListener("click", () => this.#follow());
    new ResizeObserver(() => this.#following && this.#toEnd()).observe(list);
    onLanguage(() => this.#tell());
  }

  /** Hides what `blocks(text)` says is not to be seen, also what is there already; the viewer's own always shows. */
  filter(blocks) {
    this.#blocks = blocks;
    for (const entry of this.#shown) entry.line.hidden = this.#hides(entry);
  }

  /** Adds a comment, or an event that the page has words for. */
  add(item, { own = false, epoch } = {}) {
    if (item.type === "fold") return this.#fold(item);
    if (item.type === "pin") return this.#pin(item.of);
    const line = item.type === undefined ? this.#comment(item, own) : this.#event(item);
    if (line) this.#push({ line, seq: item.seq, epoch, item, own });
  }

  /** Adds a dividing line that says what happened: a key of the texts. */
  divide(key, fill) {
    const line = element("li", "divider", text(key, fill));
    this.#push({ line, seq: null, epoch: null, item: null, own: false });
  }

  /** Takes lines out: a `remove` of the session. */
  remove({ seqs, upTo, after, epoch }) {
    const gone = new Set(seqs);
    const removed = ({ seq, epoch: of }) =>
      seq !== null && (gone.has(seq) || seq <= upTo || (after !== undefined && of === epoch && seq > after));
    for (const { line } of this.#shown.filter(removed)) line.remove();
    this.#shown = this.#shown.filter((entry) => !removed(entry));
    this.#waiting = this.#waiting.filter((entry) => !removed(entry));
    this.#tell();
  }

  clear() {
    this.#list.replaceChildren();
    this.#shown = [];
    this.#waiting = [];
    this.#missed = 0;
    this.#following = true;
    this.#pinnedText = null;
    this.#tell();
  }

  #comment({ user, text: said, at, color }, own) {
    const line = element("li", own ? "line own" : "line");
    const name = element("bdi", "user", user?.name || user?.id || "");
    name.style.color = `hsl(${hueOf(user?.id ?? "")} 70% 76%)`;
    const role = textOrNull(`role_${user?.role}`);
    if (role) line.append(element("span", `role ${user.role}`, role));
    line.append(name);
    if (own) line.append(element("span", "role you", text("you")));
    const words = element("bdi", "text", said);
    if (color !== 0xffffff) line.style.setProperty("--ink", `#${color.toString(16).padStart(6, "0")}`);
    line.append(words);
    if (at) line.title = timeOfDay(at);
    return line;
  }

  #event({ type, user, data }) {
    const fill = {
      name: user?.name || user?.id || "",
      gift: plain(data?.gift, ""),
      count: plain(data?.count, 1),
      text: plain(data?.text, ""),
    };
    const said = textOrNull(`event_${type}`, fill);
    const empty = type === "gift" ? fill.gift === "" : fill.text === "";
    return said === null || empty ? null : element("li", `line event ${type}`, said);
  }

  #fold({ of, count: times }) {
    const entry = this.#all().find(({ seq }) => seq === of);
    if (!entry) return;
    const mark = entry.line.querySelector(".times") ?? element("span", "times");
    mark.textContent = `×${count(times)}`;
    entry.line.append(mark);
  }

  #pin(of) {
    this.#pinnedText = this.#all().find(({ seq }) => seq === of)?.item?.text ?? null;
    this.#tell();
  }

  #all() {
    return [...this.#shown, ...this.#waiting];
  }

  #hides({ item, own }) {
    return !own && typeof item?.text === "string" && this.#blocks(item.text);
  }

  #push(entry) {
    entry.line.hidden = this.#hides(entry);
    this.#waiting.push(entry);
    if (this.#waiting.length > LINES_MAX) this.#waiting.shift();
    if (!this.#following) {
      this.#missed += 1;
      return this.#tell();
    }
    if (this.#scheduled) return;
    // A backlog of thousands is laid out once.
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      if (this.#following) this.#flush();
    });
  }

  #flush() {
    this.#list.append(...this.#waiting.map(({ line }) => line));
    this.#shown.push(...this.#waiting);
    for (const { line } of this.#shown.splice(0, Math.max(0, this.#shown.length - LINES_MAX))) line.remove();
    this.#waiting = [];
    this.#missed = 0;
    this.#tell();
    this.#toEnd();
  }

  #follow() {
    this.#following = true;
    this.#flush();
    this.#list.focus({ preventScroll: true });
  }

  #scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.#list;
    const atEnd = scrollTop + clientHeight >= scrollHeight - END_PX;
    if (atEnd && !this.#following) {
      this.#following = true;
      this.#flush();
    } else if (!atEnd) this.#following = false;
  }

  #toEnd() {
    this.#list.scrollTop = this.#list.scrollHeight;
  }

  #tell() {
    this.#newer.hidden = this.#missed === 0;
    this.#newer.textContent = text("newer", { count: count(this.#missed) });
    this.#pinned.hidden = this.#pinnedText === null;
    this.#pinned.querySelector("#pinned-text").textContent = text("pinned", { text: this.#pinnedText ?? "" });
    this.#empty.hidden = this.#shown.length + this.#waiting.length > 0;
  }
}
