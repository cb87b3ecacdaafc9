// The JavaScript that the documentation shows, run as it is written but for the address.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import vm from "node:vm";

import WebSocket from "ws";

import { Battery, argument } from "./battery.mjs";
import { startServer } from "./server.mjs";

const ROOT = new URL("../../../", import.meta.url);
const PAGES = ["README.md", "docs/protocol.md"];
const BLOCK = /^```js\n(.*?)^```$/gms;

// Runs a snippet until it has printed the comment that it sends itself.
function shows(snippet, server) {
  const here = snippet.replaceAll(/(127\.0\.0\.1|localhost):8080/g, `127.0.0.1:${server.port}`);
  return new Promise((resolve, reject) => {
    const sockets = [];
    class Watched extends WebSocket {
      constructor(...of) {
        super(...of);
        sockets.push(this);
        this.on("error", reject);
      }
    }
    const log = (...words) => {
      if (!words.join(" ").includes("hello")) return;
      sockets.forEach((socket) => socket.close());
      resolve();
    };
    vm.runInNewContext(here, { WebSocket: Watched, crypto: globalThis.crypto, console: { log } });
  });
}

const battery = new Battery();
const server = await startServer(argument("server"));
let found = 0;
for (const page of PAGES) {
  for (const [, snippet] of readFileSync(fileURLToPath(new URL(page, ROOT)), "utf8").matchAll(BLOCK)) {
    found += 1;
    await battery.check(`the snippet of ${page} hears what it says`, () => shows(snippet, server));
  }
}
await battery.check("the pages have snippets", async () => {
  if (found < PAGES.length) throw new Error(`only ${found} were found`);
});
await server.stop();
battery.finish();
