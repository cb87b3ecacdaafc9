// The page's modules that need no browser, each by itself.

import { readFileSync } from "node:fs";
import { equal } from "./battery.mjs";
import { Density, SHARES } from "../../../web/js/density.js";
import { checkedSettings, isBlocked, wordsOf } from "../../../web/js/settings.js";
import { EN } from "../../../web/js/texts_en.js";
import { ZH } from "../../../web/js/texts_zh.js";

const PROTOCOL = new URL("../../../docs/protocol.md", import.meta.url);
const SDK = new URL("../../../clients/js/README.md", import.meta.url);

function everyCodeHasWordsInBothLanguages() {
  // Reads the codes out of the protocol's page and the client's own out of its page.
  const table = /error codes: begin.*?-->(.*?)<!-- error codes: end/s.exec(readFileSync(PROTOCOL, "utf8"))[1];
  const codes = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, code]) => code);
  const own = readFileSync(SDK, "utf8").split("the client's own code")[1].split("##")[0];
  codes.push(...[...own.matchAll(/^\| `(\w+)` \|/gm)].map(([, code]) => code));
  equal(codes.length > 40, true, `codes found: ${codes.length}`);
  equal(codes.filter((code) => !EN[`error_${code}`] || !ZH[`error_${code}`]), [], "codes without words");
}

function bothLanguagesSayTheSameThings() {
  const holes = (text) => [...text.matchAll(/\{\w+\}/g)].map(String).sort();
  equal(Object.keys(ZH).sort(), Object.keys(EN).sort(), "keys");
  equal(Object.keys(EN).filter((key) => `${holes(EN[key])}` !== `${holes(ZH[key])}`), [], "texts that fill in differently");
}

function keptSettingsAreCheckedWhenRead() {
  const normal = checkedSettings(null);
  equal(checkedSettings({ density: "x", area: 7, opacity: NaN, scale: 1e9, speed: "90", block: {} }), normal, "nonsense");
  const wanted = { density: "few", area: "half", opacity: 40, scale: 150, speed: 70, block: "a\nb" };
  equal(checkedSettings({ ...wanted, more: 1 }), wanted, "what is right");
  equal(checkedSettings({ block: "x".repeat(9_999) }).block.length, 2_000, "length of the block list");
}

function blockedWordsAreFoundInAnyCase() {
  const words = wordsOf("Spoiler\n\n  剧透 ,\uff0cfoo");
  equal(words, ["spoiler", "剧透", "foo"], "words");
  equal(["A SPOILER!", "大剧透来了", "fo o", ""].map((text) => isBlocked(text, words)), [true, true, false, false], "blocked");
  equal(isBlocked("anything", wordsOf(" \n")), false, "an empty list blocks");
}

function theDensityKeepsTheLinesFullAndNoFuller() {
  // Ten lines of 100 px a second: for a minute, offers ten times what fits, and adds up what was let fly.
  const flown = (share) => {
    const density = new Density();
    density.configure({ lines: 10, pxPerSecond: 100, share }, 0);
    let px = 0;
    for (let ms = 0; ms < 60_000; ms += 10) px += density.admits(100, ms) ? 100 : 0;
    return px;
  };
  const minute = 10 * 100 * 60;
  equal(Math.abs(flown(SHARES.normal) / minute - 1) < 0.1, true, `normal fills ${flown(SHARES.normal)} of ${minute}`);
  equal(flown(SHARES.few) < flown(SHARES.normal) && flown(SHARES.normal) < flown(SHARES.many), true, "order of the choices");
  equal(flown(SHARES.all), 600_000, "all");
}

/** The cases of this file: names and functions. */
export const MODULE_CASES = [
  ["every error code has words in both languages", everyCodeHasWordsInBothLanguages],
  ["both languages say the same things", bothLanguagesSayTheSameThings],
  ["kept settings are checked when they are read", keptSettingsAreCheckedWhenRead],
  ["blocked words are found in any case", blockedWordsAreFoundInAnyCase],
  ["the density keeps the lines full and no fuller", theDensityKeepsTheLinesFullAndNoFuller],
];
