// The flight of comments, in a worker: however many fly, the page's own thread draws none of them.
//
// In come messages of stage.js, out comes one canvas, full of text. Owns the rendering library. All sizes
// are device pixels. Bounded: FLYING_MAX comments in the air, later ones are left out.

import { offer } from "./flight_dom.js";
import Danmaku from "../vendor/danmaku-canvas.js";
import { sprite } from "./sprite.js";

const FLYING_MAX = 3_000;
// The library keeps every comment it was ever given; those flown are dropped in portions of this many.
const FLOWN_MAX = 1_024;
const MODES = { scroll: "rtl", top: "top", bottom: "bottom" };

let engine = null;
let picture = null;
let frames = 0;
const box = { offsetWidth: 1, offsetHeight: 1, appendChild() {} };
// What flies, oldest first: {seq, epoch, comment}, where `comment` is the library's own object.
let flying = [];

function resize({ width, height }) {
  box.offsetWidth = Math.max(1, width);
  box.offsetHeight = Math.max(1, height);
  engine.resize();
  // A new size resets the context. Comments stand on whole pixels: smoothing would only cost.
  picture.getContext("2d").imageSmoothingEnabled = false;
}

function forget() {
  // `_` is the library's inside: `runningList` is what is on the screen, `position` how many of
  // `comments` were taken up. There is no public way to let go of what has flown.
  const { runningList, position } = engine._;
  const running = new Set(runningList);
  flying = flying.filter(({ comment }, n) => running.has(comment) || n >= flying.length - (engine.comments.length - position));
  engine.comments.splice(0, position);
  engine._.position = 0;
}

const orders = {
  open({ canvas, width, height }) {
    picture = canvas;
    box.offsetWidth = width;
    box.offsetHeight = height;
    offer(canvas);
    engine = new Danmaku({ container: box, engine: "canvas" });
    resize({ width, height });
    const count = () => {
      frames += 1;
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
  },
  resize,
  // How long a comment is on the screen.
  pace({ seconds }) {
    engine.speed = box.offsetWidth / seconds;
  },
  fly({ seq, epoch, mode, ...look }) {
    if (engine.comments.length >= FLOWN_MAX) forget();
    const waiting = engine.comments.length - engine._.position;
    if (engine._.runningList.length + waiting >= FLYING_MAX) return;
    engine.emit({ mode: MODES[mode] ?? MODES.scroll, render: () => sprite(look) });
    flying.push({ seq, epoch, comment: engine.comments.at(-1) });
  },
  remove({ seqs, upTo, after, epoch }) {
    const gone = new Set(seqs);
    const removed = (one) =>
      gone.has(one.seq) || one.seq <= upTo || (after !== undefined && one.epoch === epoch && one.seq > after);
    for (const { comment } of flying.filter(removed)) {
      // Not begun: it begins as nothing. In the air: its sprite becomes nothing.
      comment.render = () => new OffscreenCanvas(1, 1);
      if (comment.canvas) comment.canvas = new OffscreenCanvas(1, 1);
    }
    flying = flying.filter((one) => !removed(one));
  },
  clear() {
    engine.clear();
    forget();
    engine.comments.length = 0;
    flying = [];
  },
  show: () => engine.show(),
  hide: () => engine.hide(),
  count: () => postMessage({ flying: engine._.runningList.filter(({ canvas }) => canvas?.width > 1).length, frames }),
};

onmessage = ({ data: [order, what] }) => orders[order](what);
