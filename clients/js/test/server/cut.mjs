// A stretch of network that can be cut: connections to it go on to a server until then.

import { createServer, connect } from "node:net";

export class Wire {
  #pairs = new Set();
  #server;

  static async to(url) {
    const wire = new Wire();
    const { hostname, port, pathname } = new URL(url);
    wire.#server = createServer((near) => {
      const far = connect(Number(port), hostname);
      const pair = [near, far];
      wire.#pairs.add(pair);
      for (const [from, into] of [pair, [far, near]]) {
        from.pipe(into);
        from.on("error", () => {});
        from.on("close", () => {
          into.destroy();
          wire.#pairs.delete(pair);
        });
      }
    });
    await new Promise((resolve) => wire.#server.listen(0, "127.0.0.1", resolve));
    wire.url = `ws://127.0.0.1:${wire.#server.address().port}${pathname}`;
    return wire;
  }

  // All connections end at once, without a word.
  cut() {
    for (const pair of this.#pairs) for (const socket of pair) socket.resetAndDestroy();
  }

  close() {
    this.cut();
    return new Promise((resolve) => this.#server.close(resolve));
  }
}
