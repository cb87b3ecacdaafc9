// The page's language: English or Simplified Chinese, the browser's unless chosen, kept.

import { EN } from "./texts_en.js";
import { ZH } from "./texts_zh.js";
import { kept, keep } from "./kept.js";

const LANGUAGES = { en: { tag: "en", texts: EN }, zh: { tag: "zh-CN", texts: ZH } };
const KEY = "danmaku.language";

let current = kept(KEY, (value) => value in LANGUAGES) ?? preferred();
const listeners = new Set();

function preferred() {
  const first = (navigator.languages ?? [navigator.language]).find((tag) => /^(en|zh)\b/i.test(tag));
  return first?.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/** The text of `key`, with `{name}` filled in; null where there is none. */
export function textOrNull(key, fill = {}) {
  const texts = LANGUAGES[current].texts;
  if (!Object.hasOwn(texts, key)) return null;
  return texts[key].replace(/\{(\w+)\}/g, (whole, name) => (name in fill ? String(fill[name]) : whole));
}

/** The text of `key`; the key itself shows that one is missing. */
export function text(key, fill) {
  return textOrNull(key, fill) ?? key;
}

/** A count as this language writes it. */
export function count(number) {
  return new Intl.NumberFormat(LANGUAGES[current].tag).format(number);
}

/** A time of the day, hours and minutes, of milliseconds since 1970. */
export function timeOfDay(ms) {
  return new Intl.DateTimeFormat(LANGUAGES[current].tag, { hour: "2-digit", minute: "2-digit" }).format(ms);
}

/** Calls `listener` now and whenever the language changes. */
export function onLanguage(listener) {
  listeners.add(listener);
  listener();
}

/** Writes the texts of all marked elements: data-text, data-label, data-placeholder, data-tip. */
export function translate(root = document) {
  for (const element of root.querySelectorAll("[data-text]")) element.textContent = text(element.dataset.text);
  for (const element of root.querySelectorAll("[data-placeholder]")) element.placeholder = text(element.dataset.placeholder);
  for (const element of root.querySelectorAll("[data-tip]")) element.title = text(element.dataset.tip);
  for (const element of root.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", text(element.dataset.label));
    if (element.matches("button")) element.title = text(element.dataset.label);
  }
}

function show(button) {
  document.documentElement.lang = LANGUAGES[current].tag;
  const other = current === "en" ? "zh" : "en";
  button.textContent = other === "zh" ? "中文" : "English";
  button.lang = LANGUAGES[other].tag;
  translate();
  for (const listener of listeners) listener();
}

/** Makes `button` switch the language, and shows the present one. */
export function startLanguage(button) {
  button.addEventListener("click", () => {
    current = current === "en" ? "zh" : "en";
    keep(KEY, current);
    show(button);
  });
  show(button);
}
