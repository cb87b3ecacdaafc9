// Writing a comment: text, position, size and colour; what the server refuses is said beside the field, and
// the text comes back.

import { kept, keep } from "./kept.js";
import { Notice } from "./notice.js";

const KEY = "danmaku.style";
const MODES = ["scroll", "top", "bottom"];
const SIZES = ["18", "25", "36"];
const COLORS = ["#ffffff", "#fe4f5e", "#ff9d45", "#ffd84d", "#7be06e", "#41d8d3", "#57a6ff", "#b48cff", "#ff8ad1"];
const CHARACTERS_MAX = 100;
// The counter appears where the end comes near.
const COUNTED_FROM = 80;
// Answers that come at once need no word of their own.
const SENDING_MS = 600;

function checkedStyle(value) {
  const style = { mode: "scroll", size: "25", color: COLORS[0] };
  if (MODES.includes(value?.mode)) style.mode = value.mode;
  if (SIZES.includes(value?.size)) style.size = value.size;
  if (/^#[0-9a-f]{6}$/.test(value?.color)) style.color = value.color;
  return style;
}

// Fills `box` with one radio button a colour and a field for any other.
function fillSwatches(box, color) {
  for (const value of COLORS) {
    const label = document.createElement("label");
    const radio = Object.assign(document.createElement("input"), { type: "radio", name: "color", value });
    radio.checked = value === color;
    radio.setAttribute("aria-label", value);
    const dot = document.createElement("span");
    dot.style.backgroundColor = value;
    label.append(radio, dot);
    box.append(label);
  }
  const label = document.createElement("label");
  label.className = "any";
  const any = Object.assign(document.createElement("input"), { type: "color", name: "any", value: color });
  any.dataset.label = "color_own";
  label.append(any);
  box.append(label);
}

/** Starts the composer; `send(text, {mode, size, color})` gives the promise of an ack, as the session does. */
export function startComposer({ form, field, counter, notice: noticeBox, panel, swatches, ink, send }) {
  const style = checkedStyle(kept(KEY, (value) => typeof value === "object"));
  const notice = new Notice(noticeBox, (lost) => {
    // What is being typed changes places with it.
    if (field.value.trim() !== "") notice.offer(field.value);
    field.value = lost;
    field.focus();
    counted();
  });

  const counted = () => {
    const length = Array.from(field.value).length;
    counter.hidden = length < COUNTED_FROM;
    counter.textContent = `${length}/${CHARACTERS_MAX}`;
    counter.classList.toggle("over", length > CHARACTERS_MAX);
  };

  const deliver = async (said) => {
    const slow = setTimeout(() => notice.say({ key: "sending" }), SENDING_MS);
    try {
      const { state } = await send(said, { mode: style.mode, size: Number(style.size), color: parseInt(style.color.slice(1), 16) });
      clearTimeout(slow);
      if (state === "held") notice.say({ key: "held" });
      else if (noticeBox.dataset.kind === "note") notice.clear();
    } catch (error) {
      clearTimeout(slow);
      notice.say({ error });
      // Viewers saw it all the same: nothing is to be sent again.
      if (error.shown) return;
      if (field.value === "") field.value = said;
      else if (field.value !== said) notice.offer(said);
      counted();
    }
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const said = field.value;
    if (said.trim() === "" || notice.waits) return;
    field.value = "";
    counted();
    notice.clear();
    deliver(said);
  });
  field.addEventListener("input", counted);

  fillSwatches(swatches, style.color);
  const fields = panel.elements;
  fields.mode.value = style.mode;
  fields.size.value = style.size;
  const showInk = () => {
    ink.style.backgroundColor = style.color;
    const other = !COLORS.includes(style.color);
    fields.any.parentElement.classList.toggle("chosen", other);
  };
  panel.addEventListener("input", ({ target }) => {
    if (target.name === "any") {
      for (const radio of fields.color) radio.checked = radio.value === target.value;
      style.color = target.value;
    } else style[target.name] = target.value;
    keep(KEY, style);
    showInk();
  });
  panel.addEventListener("submit", (event) => event.preventDefault());
  showInk();
}
