// Draws one comment to a canvas of its own, once; while it flies only that picture is moved.
//
// A canvas shows text and nothing else: there is no markup to get wrong, and what towers over its line
// or runs against the writing direction stays inside the comment's own box.

// Longer than any server lets through; a canvas has an end.
const CHARACTERS_MAX = 200;
const WIDTH_PX_MAX = 8_000;
const FAMILY = 'system-ui, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';
const LINE_HEIGHT = 1.36;

const ruler = new OffscreenCanvas(1, 1).getContext("2d");

function brightness(color) {
  return (0.299 * (color >> 16) + 0.587 * ((color >> 8) & 255) + 0.114 * (color & 255)) / 255;
}

/** A canvas with `text` in `color` (0xRRGGBB) at `px` device pixels; `own` gets a frame around it. */
export function sprite({ text, color, px, own }) {
  const shown = Array.from(text).slice(0, CHARACTERS_MAX).join("");
  const font = `600 ${px}px ${FAMILY}`;
  ruler.font = font;
  const edge = Math.max(2, px * 0.13);
  const side = Math.ceil(own ? px * 0.4 : edge);
  const width = Math.min(WIDTH_PX_MAX, Math.ceil(ruler.measureText(shown).width) + 2 * side);
  const height = Math.ceil(px * LINE_HEIGHT);
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  if (own) frame(context, width, height, px);
  Object.assign(context, { font, textBaseline: "middle", lineJoin: "round", lineWidth: edge });
  // Dark letters are read by a bright edge, all others by a dark one.
  context.strokeStyle = brightness(color) < 0.25 ? "rgb(255 255 255 / 75%)" : "rgb(0 0 0 / 70%)";
  context.fillStyle = `#${color.toString(16).padStart(6, "0")}`;
  context.strokeText(shown, side, height / 2);
  context.fillText(shown, side, height / 2);
  return canvas;
}

function frame(context, width, height, px) {
  context.beginPath();
  context.roundRect(1.5, 1.5, width - 3, height - 3, px * 0.35);
  context.fillStyle = "rgb(10 12 24 / 35%)";
  context.fill();
  context.lineWidth = Math.max(1.5, px * 0.06);
  context.strokeStyle = "rgb(150 165 255 / 90%)";
  context.stroke();
}
