// The few names of a document that the rendering library asks for, for its life in a worker.
//
// Evaluated before the library. Sizes in the worker are device pixels throughout, so that the library
// is told a ratio of 1. Nothing here makes elements: every "element" is a canvas off the screen.

const style = () => ({ cssText: "" });

globalThis.window = globalThis;
globalThis.devicePixelRatio = 1;
globalThis.HTMLCanvasElement = OffscreenCanvas;
globalThis.getComputedStyle = () => ({ getPropertyValue: () => "16px" });

// The canvas that the library draws the whole picture to; set before the library is started.
let picture = null;

export function offer(canvas) {
  picture = Object.assign(canvas, { style: style() });
}

globalThis.document = {
  getElementsByTagName: () => [null],
  createElement(name) {
    // The library tries on a `div` how this platform spells `transform`.
    if (name === "div") return { style: { transform: "" } };
    if (picture === null) throw new Error(`a worker makes no element ${name}`);
    const taken = picture;
    picture = null;
    return taken;
  },
};
