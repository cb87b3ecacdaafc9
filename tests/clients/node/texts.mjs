// Texts that lose a byte wherever somebody escapes, counts, splits or normalises wrongly.

export const NASTY = [
  "hello",
  "汉".repeat(100),
  "👩‍👩‍👧‍👦🏳️‍🌈👍🏽",
  "مرحبا بالعالم",
  "quotes \" and ' and \\ and \\\" and \\u0041",
  "</script><b>&amp;%00%0a${x}",
  "line\u2028and\u2029paragraph",
  "é is not e\u0301",
  "𝕬𝖇 🇨🇳 \u{10fffd} \ufffd",
  "a".repeat(100),
];

// A comment like no other, within 100 characters, so that nothing is folded away. Cut between
// characters: half a surrogate pair is not text.
export function unlike(who, n) {
  const tail = Array.from(NASTY[(who + n) % NASTY.length]).slice(0, 80).join("");
  return `${who}/${n} ${tail}`;
}
