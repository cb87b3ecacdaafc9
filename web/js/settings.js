// How comments are shown to this viewer: the panel, kept in this browser, every value checked when read.

import { kept, keep } from "./kept.js";

const KEY = "danmaku.settings";
const CHOICES = { density: ["few", "normal", "many", "all"], area: ["full", "half", "quarter"] };
const RANGES = { opacity: [10, 100], scale: [50, 170], speed: [50, 200] };
const DEFAULTS = { density: "normal", area: "full", opacity: 100, scale: 100, speed: 100, block: "" };
const BLOCK_LENGTH_MAX = 2_000;
const WORDS_MAX = 200;

/** What of `value` is usable, the rest at its default. */
export function checkedSettings(value) {
  const checked = { ...DEFAULTS };
  for (const [key, choices] of Object.entries(CHOICES)) if (choices.includes(value?.[key])) checked[key] = value[key];
  for (const [key, [min, max]] of Object.entries(RANGES)) {
    const number = value?.[key];
    if (Number.isFinite(number) && number >= min && number <= max) checked[key] = number;
  }
  if (typeof value?.block === "string") checked.block = value.block.slice(0, BLOCK_LENGTH_MAX);
  return checked;
}

/** The words of the block list, in the form that `isBlocked` compares. */
export function wordsOf(block) {
  const words = block.split(/[\n,\uff0c]/).map((word) => word.trim().toLowerCase());
  return words.filter((word) => word !== "").slice(0, WORDS_MAX);
}

/** Whether a text holds one of `words`, whatever its case. */
export function isBlocked(text, words) {
  if (words.length === 0) return false;
  const lower = text.toLowerCase();
  return words.some((word) => lower.includes(word));
}

/** Starts the panel `form`; `changed` gets the settings now and after every change. */
export function startSettings(form, changed) {
  const fields = form.elements;
  let settings = checkedSettings(kept(KEY, (value) => typeof value === "object"));

  const show = () => {
    for (const key of Object.keys(CHOICES)) fields[key].value = settings[key];
    for (const key of Object.keys(RANGES)) {
      fields[key].value = settings[key];
      fields[key].nextElementSibling.textContent = `${settings[key]}%`;
    }
    if (fields.block.value !== settings.block) fields.block.value = settings.block;
    changed(settings);
  };
  const read = () => {
    const value = { block: fields.block.value };
    for (const key of Object.keys(CHOICES)) value[key] = fields[key].value;
    for (const key of Object.keys(RANGES)) value[key] = Number(fields[key].value);
    settings = checkedSettings(value);
    keep(KEY, settings);
    show();
  };
  form.addEventListener("input", read);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("#settings-reset").addEventListener("click", () => {
    settings = { ...DEFAULTS };
    keep(KEY, settings);
    show();
  });
  show();
}
