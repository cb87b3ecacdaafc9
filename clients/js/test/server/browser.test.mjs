// Against the server at DANMAKU_URL, in headless Chromium (CHROMIUM names the program if it is not in the path).

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { chromium } from "playwright-core";
import { FLAGS } from "../../../../tests/clients/node/chromium.mjs";
import { Wire } from "./cut.mjs";
import { faults } from "./talk.mjs";

const url = process.env.DANMAKU_URL;
if (!url) throw new Error("DANMAKU_URL is not set: it should be a server's endpoint, such as ws://127.0.0.1:8080/ws");
const FILES = { "/danmaku.js": "../../danmaku.js", "/talk.mjs": "./talk.mjs" };

// A page that allows no script but files, with the module as its users get it.
async function servePage() {
  const server = createServer((request, response) => {
    const file = FILES[new URL(request.url, "http://page").pathname];
    response.setHeader("content-security-policy", `default-src 'self'; connect-src ws://127.0.0.1:*`);
    response.setHeader("content-type", file ? "text/javascript" : "text/html");
    response.end(file ? readFileSync(new URL(file, import.meta.url)) : "<!doctype html><title>page</title>");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

test("in a browser two sessions are shown the same in the same order while one is cut off again and again", async () => {
  const executablePath = process.env.CHROMIUM ?? execFileSync("which", ["chromium"], { encoding: "utf8" }).trim();
  const profile = mkdtempSync(join(tmpdir(), "danmaku-client-"));
  const [wire, pages] = [await Wire.to(url), await servePage()];
  const browser = await chromium.launchPersistentContext(profile, { executablePath, args: FLAGS });
  try {
    const page = await browser.newPage();
    const complaints = [];
    page.on("pageerror", (error) => complaints.push(String(error)));
    await page.exposeFunction("cut", () => wire.cut());
    await page.goto(`http://127.0.0.1:${pages.address().port}/`);
    const told = await page.evaluate(
      async ({ near, far, room }) => {
        const { connect } = await import("/danmaku.js");
        const { talk } = await import("/talk.mjs");
        return talk({ connect, near, far, room, cut: window.cut });
      },
      { near: wire.url, far: url, room: `browser-${Math.random().toString(36).slice(2)}` },
    );
    assert.deepEqual(faults(told), []);
    assert.deepEqual(complaints, []);
  } finally {
    await browser.close();
    pages.close();
    await wire.close();
    rmSync(profile, { recursive: true, force: true });
  }
});
