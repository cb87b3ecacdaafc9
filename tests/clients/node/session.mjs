// A native session over npm's `ws`, in either encoding.

import { setTimeout as delay } from "node:timers/promises";
import WebSocket from "ws";
import { RoomLog } from "./room_log.mjs";

const WAIT_MS_MAX = 30_000;
let rooms = 0;

// A room that no other case uses.
export function freshRoom(name) {
  rooms += 1;
  return `${name}-${rooms}`;
}

export class Session {
  messages = [];
  #broken;
  #waiting = new Set();
  #ids = 0;

  static async open(server, room, codec, { deflate = false, since, query = "" } = {}) {
    const session = new Session();
    session.codec = codec;
    session.log = new RoomLog(since);
    const position = since ? `&since=${since.epoch}:${since.seq}` : "";
    const url = `ws://127.0.0.1:${server.port}/ws?room=${room}${query}${position}`;
    // Threshold 0: the library compresses short frames too, which is what the server must be able to read.
    session.socket = new WebSocket(url, [codec.subprotocol], { perMessageDeflate: deflate && { threshold: 0 } });
    session.closed = new Promise((resolve) => session.socket.once("close", (code) => resolve(code)));
    session.closed.then((code) => session.#fail(new Error(`closed with ${code}`)));
    session.socket.on("error", (error) => session.#fail(error));
    session.socket.on("message", (data, binary) => session.#take(data, binary));
    session.joined = (await session.next("joined")).body;
    return session;
  }

  #fail(error) {
    this.#broken ??= error;
    this.#waiting.forEach((look) => look());
  }

  #take(data, binary) {
    try {
      if (binary !== this.codec.binary) throw new Error(`a frame of the wrong type: binary is ${binary}`);
      const message = this.codec.decode(binary ? data : data.toString("utf8"));
      const [[kind, body], ...more] = Object.entries(message);
      if (more.length) throw new Error(`more than one key: ${JSON.stringify(message)}`);
      this.log.take(kind, body);
      this.messages.push({ kind, body });
      this.#waiting.forEach((look) => look());
    } catch (error) {
      this.#fail(error);
    }
  }

  // Waits until `condition` gives something true, and gives that.
  until(condition, what) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => end(reject, new Error(`no ${what} within ${WAIT_MS_MAX} ms`)), WAIT_MS_MAX);
      const end = (settle, value) => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        settle(value);
      };
      const look = () => {
        const found = condition();
        if (found) end(resolve, found);
        else if (this.#broken) end(reject, this.#broken);
      };
      this.#waiting.add(look);
      look();
    });
  }

  // The first message of a kind from index `after` on.
  next(kind, { after = 0, where = () => true } = {}) {
    return this.until(() => this.messages.slice(after).find((m) => m.kind === kind && where(m.body)), kind);
  }

  command(name, body) {
    this.socket.send(this.codec.encode({ [name]: body }));
  }

  // Publishes once and gives the answer: an ack or an error.
  async fate(id, text, more = {}) {
    const after = this.messages.length;
    this.command("send", { id, text, ...more });
    const answer = ({ kind, body }) => (kind === "ack" || kind === "error") && body.id === id;
    return this.until(() => this.messages.slice(after).find(answer), `fate of ${id}`);
  }

  // Publishes until accepted, waiting as long as the server asks; gives the sequence.
  async publish(text, more = {}) {
    this.#ids += 1;
    const id = more.id ?? `p-${this.#ids}`;
    for (;;) {
      const { kind, body } = await this.fate(id, text, more);
      if (kind === "ack") return body.seq;
      if (!body.retryAfterMs) throw new Error(`publish refused: ${JSON.stringify(body)}`);
      await delay(body.retryAfterMs);
    }
  }

  // Waits until the log reaches a sequence; gives the entry.
  async shown(seq) {
    await this.until(() => this.log.cursor >= seq, `entry ${seq}`);
    return this.log.items.get(seq);
  }

  async close() {
    this.socket.close(1000);
    return this.closed;
  }
}
