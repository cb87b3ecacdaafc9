#!/usr/bin/env node
// How much the page's main thread works in each frame while 2,000 comments are on the screen.
//
//   node web/bench/frames.mjs --server target/release/danmaku [--comments 2000] [--seconds 6] [--chromium PATH]
//
// Starts the server, opens the page in Chromium without a display, and keeps the sky full: as many new comments a
// second as leave it. They are fed to the page's own `stage` (see js/stage.js), since no server would let one
// user send so fast; beside them the session is connected as always. Then it takes a trace and prints the time of
// all tasks of the main thread per frame, which should be at most 8 ms (p95, running); and how many frames the
// worker drew, which without a graphics processor is bound by filling pixels and says little about a real screen.
//
// Needs playwright-core, as tests/clients/node has it (`npm ci` there), and Chromium.

import { createRequire } from "node:module";
import { framesOf } from "./trace.mjs";
import { FLAGS } from "../../tests/clients/node/chromium.mjs";
import { startServer } from "../../tests/clients/node/server.mjs";

const require = createRequire(new URL("../../tests/clients/node/package.json", import.meta.url));
const { chromium } = require("playwright-core");

// What a comment needs from one side to the other, as js/stage.js has it.
const FLIGHT_S = 8;
const TARGET_MS = 8;

function argument(name, otherwise) {
  const at = process.argv.indexOf(`--${name}`);
  if (at > 0) return process.argv[at + 1];
  if (otherwise === undefined) throw new Error(`--${name} is missing`);
  return otherwise;
}

// Runs in the page: keeps `comments` of them in the air until it is closed.
async function fill({ comments, flightS }) {
  const { stage } = await import("/js/main.js");
  const words = ["这个夜景绝了", "hello from the other side", "前方高能", "so smooth", "哈哈哈哈哈哈", "666"];
  let sent = 0;
  let owed = 0;
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    owed += ((now - last) * comments) / flightS / 1000;
    last = now;
    for (; owed >= 1; owed -= 1) {
      sent += 1;
      const text = `${words[sent % words.length]} ${sent}`;
      const item = { seq: sent, text, mode: "scroll", color: 0xffffff, size: 25, user: { id: "bench", role: "viewer" } };
      stage.show(item, { urgent: true, epoch: "bench" });
    }
  }, 16);
}

const comments = Number(argument("comments", "2000"));
const seconds = Number(argument("seconds", "6"));
const server = await startServer(argument("server"));
const browser = await chromium.launch({ executablePath: argument("chromium", "/usr/bin/chromium"), args: FLAGS });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(`${server.origin}/?room=bench`);
  await page.locator("#state[data-state=open]").waitFor();
  const count = () => page.evaluate(async () => (await import("/js/main.js")).stage.count());
  if (comments > 0) {
    await page.evaluate(fill, { comments, flightS: FLIGHT_S });
    const deadline = Date.now() + 6 * FLIGHT_S * 1000;
    while ((await count()).flying < comments * 0.97 && Date.now() < deadline) await page.waitForTimeout(250);
  }
  const before = await count();
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline", "__metadata"] });
  await page.waitForTimeout(seconds * 1000);
  const { traceEvents } = JSON.parse(await browser.stopTracing());
  const after = await count();
  // The page's process is the one whose main thread worked most.
  const named = traceEvents.filter(({ ph, args }) => ph === "M" && args?.name === "CrRendererMain");
  const [frames] = named
    .map(({ pid }) => framesOf(traceEvents, pid))
    .sort((a, b) => b.busyShare - a.busyShare);
  console.log(`on the screen: ${before.flying} comments before, ${after.flying} after ${seconds} s`);
  const told = ({ medianMs, p95Ms, mostMs }) =>
    `median ${medianMs.toFixed(2)} ms, p95 ${p95Ms.toFixed(2)} ms, most ${mostMs.toFixed(1)} ms`;
  console.log(`main thread per frame, running: ${told(frames.cpu)}`);
  console.log(`main thread per frame, waiting for a core included: ${told(frames.wall)}`);
  console.log(`main thread: ${(frames.frames / frames.seconds).toFixed(1)} frames a second, busy ${(100 * frames.busyShare).toFixed(1)} %`);
  console.log(`worker: ${((after.frames - before.frames) / frames.seconds).toFixed(1)} frames a second`);
  // On a machine that others use too, only what ran is the page's own doing.
  process.exitCode = frames.cpu.p95Ms <= TARGET_MS ? 0 : 1;
} finally {
  await browser.close();
  await server.stop();
}
