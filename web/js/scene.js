// The moving picture: a city by the water at night, drawn once to a few wide strips that then drift.
//
// Each strip is a canvas whose right half repeats its left half; the style sheet moves it by one half for
// ever, on the compositor, so that the page's own thread does nothing. Nothing moves for whoever asks the
// system for less motion. The same numbers every time give the same city.

const WIDTH = 1_600;
const HEIGHT = 900;
// Where the water begins.
const SHORE = 690;

// A small generator of numbers between 0 and 1 (mulberry32), for a city that is the same for everybody.
function numbers(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function strip(box, name, draw, { repeats = true } = {}) {
  const half = document.createElement("canvas");
  half.width = WIDTH;
  half.height = HEIGHT;
  draw(half.getContext("2d"));
  if (!repeats) {
    half.className = `strip ${name}`;
    box.append(half);
    return;
  }
  const whole = document.createElement("canvas");
  whole.className = `strip ${name}`;
  whole.width = 2 * WIDTH;
  whole.height = HEIGHT;
  const context = whole.getContext("2d");
  context.drawImage(half, 0, 0);
  context.drawImage(half, WIDTH, 0);
  box.append(whole);
}

function gradient(context, y0, y1, stops) {
  const made = context.createLinearGradient(0, y0, 0, y1);
  stops.forEach(([at, color]) => made.addColorStop(at, color));
  return made;
}

function sky(context) {
  context.fillStyle = gradient(context, 0, SHORE, [
    [0, "#070b1f"],
    [0.45, "#17204a"],
    [0.78, "#473a78"],
    [1, "#a3567f"],
  ]);
  context.fillRect(0, 0, WIDTH, SHORE);
  const next = numbers(11);
  for (let n = 0; n < 190; n += 1) {
    const [x, y] = [next() * WIDTH, next() ** 1.7 * SHORE * 0.75];
    context.globalAlpha = 0.25 + next() * 0.65;
    context.fillStyle = next() < 0.2 ? "#ffdcc2" : "#dfe7ff";
    context.beginPath();
    context.arc(x, y, 0.5 + next() * 1.1, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
  moon(context, 1_210, 170, 62);
  water(context);
}

function moon(context, x, y, radius) {
  const halo = context.createRadialGradient(x, y, radius * 0.8, x, y, radius * 4.2);
  halo.addColorStop(0, "rgb(255 226 206 / 26%)");
  halo.addColorStop(1, "rgb(255 236 214 / 0%)");
  context.fillStyle = halo;
  context.fillRect(x - 300, y - 300, 600, 600);
  context.fillStyle = "#fbeedd";
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
  context.fillStyle = "rgb(214 190 176 / 45%)";
  for (const [dx, dy, r] of [[-20, -14, 13], [16, 10, 17], [-8, 26, 8], [26, -24, 7]]) {
    context.beginPath();
    context.arc(x + dx, y + dy, r, 0, 2 * Math.PI);
    context.fill();
  }
}

function water(context) {
  context.fillStyle = gradient(context, SHORE, HEIGHT, [
    [0, "#4d3a6b"],
    [0.35, "#1f2550"],
    [1, "#080c20"],
  ]);
  context.fillRect(0, SHORE, WIDTH, HEIGHT - SHORE);
  const next = numbers(5);
  // The moon's way on the water.
  for (let y = SHORE + 6; y < HEIGHT; y += 5) {
    const width = 16 + (y - SHORE) * 0.6 * (0.5 + next());
    context.fillStyle = `rgb(255 226 200 / ${0.03 + next() * 0.13})`;
    context.fillRect(1_210 - width / 2 + (next() - 0.5) * 34, y, width, 2);
  }
}

// A soft oval; over the edge it comes in again on the other side.
function puff(context, { x, y, width, height, color }) {
  for (const shift of [-WIDTH, 0, WIDTH]) {
    context.save();
    context.translate(x + shift, y);
    context.scale(width, height);
    const soft = context.createRadialGradient(0, 0, 0, 0, 0, 1);
    soft.addColorStop(0, `rgb(${color} / 15%)`);
    soft.addColorStop(1, `rgb(${color} / 0%)`);
    context.fillStyle = soft;
    context.fillRect(-1, -1, 2, 2);
    context.restore();
  }
}

function clouds(context) {
  const next = numbers(23);
  for (let n = 0; n < 8; n += 1) {
    const [x, y, size] = [next() * WIDTH, 70 + next() * 380, 70 + next() * 120];
    for (let part = 0; part < 9; part += 1) {
      const [dx, dy, r] = [(next() - 0.5) * size * 3.4, (next() - 0.5) * size * 0.26, size * (0.4 + next() * 0.5)];
      puff(context, { x: x + dx, y: y + dy, width: r * 2.2, height: r * 0.42, color: "176 160 220" });
    }
  }
}

// One row of buildings on `base`: `look` gives heights, colours and how many windows are lit.
function buildings(context, { seed, base, low, high, wide, wall, lit, glow, gap = 0 }) {
  const next = numbers(seed);
  let x = 0;
  while (x < WIDTH) {
    let width = wide * (0.55 + next() * 0.9);
    // The last one ends where the strip begins again.
    if (WIDTH - x - width < wide * 0.6) width = WIDTH - x;
    const height = low + next() ** 1.6 * (high - low);
    building(context, { x, width: width - gap, height, base, wall, lit, glow, next });
    x += width;
  }
}

function building(context, { x, width, height, base, wall, lit, glow, next }) {
  const top = base - height;
  context.fillStyle = gradient(context, top, base, wall);
  context.fillRect(x, top, width, height + 2);
  const shape = next();
  if (shape < 0.25) context.fillRect(x + width * 0.2, top - 18, width * 0.6, 19);
  else if (shape < 0.42) {
    context.fillRect(x + width / 2 - 1.5, top - 46, 3, 47);
    context.fillStyle = "#ff6b7d";
    context.beginPath();
    context.arc(x + width / 2, top - 47, 2.6, 0, 2 * Math.PI);
    context.fill();
  }
  if (lit === 0) return;
  const [stepX, stepY] = [13, 17];
  const columns = Math.floor((width - 12) / stepX);
  const left = x + (width - columns * stepX) / 2;
  const warm = glow[Math.floor(next() * glow.length)];
  for (let y = top + 14; y < base - 12; y += stepY) {
    // Whole floors are often dark.
    const floor = next() < 0.28 ? 0.1 : lit;
    for (let column = 0; column < columns; column += 1) {
      if (next() > floor) continue;
      context.globalAlpha = 0.35 + next() * 0.6;
      context.fillStyle = warm;
      context.fillRect(left + column * stepX + 3, y, 6, 8);
    }
  }
  context.globalAlpha = 1;
}

function far(context) {
  const wall = [[0, "#2b2a5c"], [1, "#6a4577"]];
  buildings(context, { seed: 3, base: SHORE, low: 90, high: 330, wide: 92, wall, lit: 0, glow: ["#fff"] });
  context.fillStyle = gradient(context, SHORE - 260, SHORE, [[0, "rgb(163 86 127 / 0%)"], [1, "rgb(190 100 140 / 34%)"]]);
  context.fillRect(0, SHORE - 260, WIDTH, 260);
}

function middle(context) {
  const glow = ["#ffd49a", "#ffc27d", "#bfe0ff", "#ffe3bd"];
  const wall = [[0, "#14183c"], [1, "#262250"]];
  buildings(context, { seed: 8, base: SHORE, low: 80, high: 400, wide: 116, wall, lit: 0.42, glow, gap: 5 });
  mirror(context);
}

// What stands on the shore, upside down and dim in the water.
function mirror(context) {
  context.save();
  context.globalAlpha = 0.26;
  context.translate(0, 2 * SHORE);
  context.scale(1, -1);
  context.drawImage(context.canvas, 0, SHORE - 200, WIDTH, 200, 0, SHORE - 200, WIDTH, 200);
  context.restore();
  const next = numbers(31);
  for (let n = 0; n < 240; n += 1) {
    const y = SHORE + 5 + next() ** 1.4 * 150;
    context.fillStyle = next() < 0.6 ? "rgb(255 205 150 / 22%)" : "rgb(190 220 255 / 16%)";
    context.fillRect(next() * WIDTH, y, 6 + next() * 26, 1.5);
  }
}

// A cypress of the promenade, with a smaller one beside it.
function tree(context, x, ground, size) {
  for (const [dx, part] of [[0, 1], [size * 0.22, 0.68]]) {
    const height = size * part;
    context.beginPath();
    context.moveTo(x + dx, ground - height);
    context.bezierCurveTo(x + dx + height * 0.2, ground - height * 0.5, x + dx + height * 0.13, ground, x + dx, ground);
    context.bezierCurveTo(x + dx - height * 0.13, ground, x + dx - height * 0.2, ground - height * 0.5, x + dx, ground - height);
    context.fill();
  }
}

function lamp(context, x, ground) {
  const y = ground - 74;
  const light = context.createRadialGradient(x, y, 1, x, y, 58);
  light.addColorStop(0, "rgb(255 232 190 / 95%)");
  light.addColorStop(0.1, "rgb(255 214 158 / 38%)");
  light.addColorStop(1, "rgb(255 200 140 / 0%)");
  context.fillStyle = light;
  context.fillRect(x - 58, y - 58, 116, 116);
  context.fillStyle = "#060812";
  context.fillRect(x - 1.5, y + 4, 3, 72);
  context.fillRect(x - 6, y + 3, 12, 3);
}

// The promenade on this side of the water: a railing, lamps, trees.
function near(context) {
  const next = numbers(42);
  const ground = HEIGHT - 26;
  context.fillStyle = "#060812";
  context.fillRect(0, ground, WIDTH, 26);
  context.fillRect(0, ground - 25, WIDTH, 2.5);
  context.fillRect(0, ground - 14, WIDTH, 1.5);
  for (let x = 0; x < WIDTH; x += 20) context.fillRect(x, ground - 25, 2, 25);
  for (let x = 120; x < WIDTH - 60; x += 400) tree(context, x + next() * 60, ground, 110 + next() * 60);
  for (let x = 100; x < WIDTH; x += 200) lamp(context, x, ground);
}

// A train on the bridge over the water, which passes now and then.
function train(box) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height, canvas.className] = [760, 46, "train"];
  const context = canvas.getContext("2d");
  for (let car = 0; car < 5; car += 1) {
    const x = car * 152;
    context.fillStyle = "#11142c";
    context.beginPath();
    context.roundRect(x, 4, 148, 34, car === 0 ? [16, 5, 5, 5] : 5);
    context.fill();
    context.fillStyle = "#ffe2ad";
    for (let window = 0; window < 8; window += 1) context.fillRect(x + 12 + window * 16.5, 12, 11, 11);
    context.fillStyle = "#ff7ab8";
    context.fillRect(x + 4, 30, 140, 2);
  }
  box.append(canvas);
}

/** Draws the picture into `box`. */
export function drawScene(box) {
  strip(box, "sky", sky, { repeats: false });
  strip(box, "clouds", clouds);
  strip(box, "far", far);
  strip(box, "middle", middle);
  train(box);
  strip(box, "near", near);
}
