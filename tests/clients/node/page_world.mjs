// What the cases of the page need around it: a server on a port that stays the same, a wire that can be cut,
// and pages that note every complaint of the browser.

import { once } from "node:events";
import { connect, createServer } from "node:net";
import { equal } from "./battery.mjs";
import { startServer } from "./server.mjs";

export const WAIT_MS_MAX = 60_000;

// A port that is free now.
async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** The real server, which can die without a word and come back at the same address. */
export class Mortal {
  #binary;
  #server;

  static async born(binary) {
    const mortal = new Mortal();
    mortal.#binary = binary;
    mortal.port = await freePort();
    mortal.origin = `http://127.0.0.1:${mortal.port}`;
    await mortal.start();
    return mortal;
  }

  async start() {
    this.#server = await startServer(this.#binary, { port: this.port });
  }

  kill() {
    return this.#server.kill();
  }
}

/** A wire to the server's port that can be cut and joined again; while it is cut nobody gets through. */
export class Wire {
  #sockets = new Set();
  #cut = false;

  static async to(port) {
    const wire = new Wire();
    wire.server = createServer((near) => wire.#join(near, port)).listen(0, "127.0.0.1");
    await once(wire.server, "listening");
    wire.origin = `http://127.0.0.1:${wire.server.address().port}`;
    return wire;
  }

  #join(near, port) {
    if (this.#cut) return near.destroy();
    const far = connect(port, "127.0.0.1");
    for (const [one, other] of [[near, far], [far, near]]) {
      this.#sockets.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
  }

  cut() {
    this.#cut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  join() {
    this.#cut = false;
  }

  async close() {
    this.cut();
    this.server.close();
    await once(this.server, "close");
  }
}

// What the browser says of connections that a case has broken on purpose.
const BROKEN_ON_PURPOSE = /WebSocket connection to .* failed|net::ERR_/;

/** One viewer: a page in a context of its own, so with its own storage. */
export class Viewer {
  #complaints = [];

  static async open(browser, address, { breaks = false, prepare, ...context } = {}) {
    const viewer = new Viewer();
    viewer.context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-US", ...context });
    viewer.page = await viewer.context.newPage();
    viewer.page.setDefaultTimeout(WAIT_MS_MAX);
    viewer.page.on("pageerror", (error) => viewer.#complaints.push(String(error)));
    viewer.page.on("dialog", (dialog) => {
      viewer.#complaints.push(`a dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    viewer.page.on("response", (response) => {
      if (response.status() >= 400) viewer.#complaints.push(`${response.status()} for ${response.url()}`);
    });
    viewer.page.on("console", (message) => {
      if (!["error", "warning"].includes(message.type())) return;
      if (breaks && BROKEN_ON_PURPOSE.test(message.text())) return;
      viewer.#complaints.push(message.text());
    });
    // A violation of the policy is noted by the page itself, wherever it happens.
    await viewer.page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
        console.error(`policy: ${violatedDirective} ${blockedURI}`);
      });
    });
    await prepare?.(viewer.page);
    await viewer.page.goto(address);
    await viewer.opened();
    return viewer;
  }

  opened() {
    return this.page.locator("#state[data-state=open]").waitFor();
  }

  async say(text) {
    await this.page.fill("#text", text);
    await this.page.press("#text", "Enter");
  }

  /** Waits until the list holds a comment with exactly this text. */
  async sees(text) {
    await this.page.waitForFunction(
      (wanted) => [...document.querySelectorAll("#comments .text")].some(({ textContent }) => textContent === wanted),
      text,
    );
  }

  texts() {
    return this.page.locator("#comments .text").allTextContents();
  }

  /** Waits until so many comments fly. */
  async flies(atLeast) {
    await this.page.waitForFunction(async (least) => {
      const { stage } = await import("/js/main.js");
      return (await stage.count()).flying >= least;
    }, atLeast);
  }

  /** Waits until so many more frames of the flight are drawn. */
  async draws(frames) {
    const count = () => this.page.evaluate(async () => (await (await import("/js/main.js")).stage.count()).frames);
    const last = (await count()) + frames;
    while ((await count()) < last);
  }

  /** The page's English text of `key`. */
  async line(key) {
    return this.page.evaluate(async (name) => (await import("/js/texts_en.js")).EN[name], key);
  }

  async close() {
    await this.context.close();
    equal(this.#complaints, [], "complaints of the browser");
  }
}
