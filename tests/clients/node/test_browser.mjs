// Chromium: the page as people use it, and a crowd of sockets in one page, in both encodings.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { Battery, argument, equal } from "./battery.mjs";
import { FLAGS } from "./chromium.mjs";
import { JSON_CODEC, PROTO_CODEC } from "./codec.mjs";
import { RoomLog } from "./room_log.mjs";
import { startServer } from "./server.mjs";
import { freshRoom } from "./session.mjs";
import { NASTY, unlike } from "./texts.mjs";

const WAIT_MS_MAX = 60_000;
const SOCKETS = 20;
const PUBLISHERS = 4;
const COMMENTS = 5;

async function twoPagesSeeEachOther(browser, server) {
  const room = freshRoom("page");
  const pages = [await browser.newPage(), await browser.newPage()];
  const complaints = [];
  for (const page of pages) {
    page.setDefaultTimeout(WAIT_MS_MAX);
    page.on("pageerror", (error) => complaints.push(String(error)));
    // A refused script or style is an error on the console; so is the icon that browsers ask for unasked.
    page.on("console", (message) => {
      const expected = message.location().url.endsWith("/favicon.ico");
      if (message.type() === "error" && !expected) complaints.push(message.text());
    });
    await page.goto(`${server.origin}/?room=${room}`);
    await page.locator("#state[data-state=open]").waitFor();
  }
  const texts = ["hello from the first", "<b>你好</b> & \"quotes\" 👩‍👩‍👧‍👦"];
  for (const [n, text] of texts.entries()) {
    await pages[n].fill("#text", text);
    await pages[n].press("#text", "Enter");
    for (const page of pages) {
      await page.locator("#comments li .text").nth(n).waitFor();
      equal(await page.locator("#comments li .text").nth(n).textContent(), text, "comment on the page");
    }
  }
  equal(await pages[0].locator("#comments b, #stage b").count(), 0, "elements made of a text");
  await pages[0].waitForFunction(() => Number(document.querySelector("#online").textContent) >= 2);
  equal(complaints, [], "errors on the page");
  await Promise.all(pages.map((page) => page.close()));
}

// Runs in the page: opens sockets, sends the frames of those that publish, and gives every frame
// received once all sockets together have heard `total` entries. Frames travel between page and test
// as text or as arrays of bytes; what they mean is decided outside.
async function crowdInPage({ url, subprotocol, sockets, frames, total, waitMs }) {
  const bytesOf = (data) => (typeof data === "string" ? data : Array.from(new Uint8Array(data)));
  const opened = Array.from({ length: sockets }, () => new WebSocket(url, [subprotocol]));
  const received = opened.map(() => []);
  // Counts what came, so that nothing is missed while a condition is being looked at.
  let arrivals = 0;
  let wake = () => {};
  const news = () => {
    arrivals += 1;
    wake();
  };
  const broken = [];
  opened.forEach((socket, n) => {
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      received[n].push(bytesOf(data));
      news();
    };
    socket.onclose = ({ code }) => {
      broken.push(code);
      news();
    };
  });
  const until = async (condition) => {
    const deadline = Date.now() + waitMs;
    for (;;) {
      const looked = arrivals;
      if (await condition()) return;
      if (broken.length) throw new Error(`a socket closed with ${broken[0]}`);
      if (arrivals !== looked) continue;
      await new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error("nothing came")), Math.max(0, deadline - Date.now()));
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  };
  await until(() => received.every((log) => log.length > 0));
  frames.forEach((own, n) => {
    own.forEach((frame) => opened[n].send(typeof frame === "string" ? frame : new Uint8Array(frame)));
  });
  // The test decodes: it alone knows how many entries a frame holds.
  await until(async () => (await window.heard(received)) === total);
  const extensions = opened.map((socket) => socket.extensions);
  opened.forEach((socket) => {
    socket.onclose = null;
    socket.close(1000);
  });
  return { extensions, received };
}

// Takes what each socket received, in order, through a client's view of the room.
function logsOf(codec, received) {
  return received.map((frames) => {
    const log = new RoomLog();
    for (const frame of frames) {
      const message = codec.decode(typeof frame === "string" ? frame : Uint8Array.from(frame));
      const [[kind, body]] = Object.entries(message);
      if (kind === "error") throw new Error(`refused: ${JSON.stringify(body)}`);
      log.take(kind, body);
    }
    return log;
  });
}

async function aCrowdInOnePage(browser, server, codec, deflate) {
  const page = await browser.newPage();
  await page.goto(`${server.origin}/?room=${freshRoom("idle")}`);
  const total = PUBLISHERS * COMMENTS * SOCKETS;
  await page.exposeFunction("heard", (received) =>
    logsOf(codec, received).reduce((sum, log) => sum + log.texts().length, 0),
  );
  const texts = Array.from({ length: PUBLISHERS }, (_, who) =>
    Array.from({ length: COMMENTS }, (_, n) => (who ? unlike(who, n) : NASTY[n])),
  );
  const frames = texts.map((own) =>
    own.map((text, n) => {
      const frame = codec.encode({ send: { id: `c-${n}`, text } });
      return typeof frame === "string" ? frame : Array.from(frame);
    }),
  );
  const url = `${server.origin.replace("http", "ws")}/ws?room=${freshRoom("crowd")}&tier=full&snapshot=none`;
  const { subprotocol } = codec;
  const options = { url, subprotocol, sockets: SOCKETS, frames, total, waitMs: WAIT_MS_MAX };
  const { extensions, received } = await page.evaluate(crowdInPage, options);
  for (const found of extensions) equal(found.includes("permessage-deflate"), deflate, `compression in ${found}`);
  const logs = logsOf(codec, received).map((log) => log.texts());
  for (const [n, log] of logs.entries()) equal(log, logs[0], `log of ${n} against the first`);
  equal(logs[0].map(([, text]) => text).sort(), texts.flat().sort(), "texts heard");
  await page.close();
}

const battery = new Battery();
const profile = mkdtempSync(join(tmpdir(), "danmaku-chromium-"));
const browser = await chromium.launchPersistentContext(profile, { executablePath: argument("chromium"), args: FLAGS });
try {
  for (const deflate of [true, false]) {
    const config = deflate ? "" : "[websocket]\ndeflate = false\n";
    const server = await startServer(argument("server"), { config });
    const how = deflate ? "deflate" : "deflate off";
    await battery.check(`two pages see each other's comments (${how})`, () => twoPagesSeeEachOther(browser, server));
    for (const codec of [JSON_CODEC, PROTO_CODEC]) {
      await battery.check(`a crowd in one page hears every comment (${codec.subprotocol}, ${how})`, () =>
        aCrowdInOnePage(browser, server, codec, deflate),
      );
    }
    if (battery.failed) console.log(`the server said: ${server.said()}`);
    await server.stop();
  }
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
battery.finish();
