// A session on a stage: a WebSocket and a clock that do only what a test tells them.

import { connect } from "../../danmaku.js";

const EVENTS = "state joined reset item remove gap room pending auth reconnect error".split(" ");

// Lets everything run that waits for nothing but its turn.
export function settle() {
  return new Promise((resolve) => setImmediate(resolve));
}

export class Clock {
  now = 1_000;
  // Set: time goes on by 1 ms with every look at it, as it may between any two.
  restless = false;
  #timers = new Map();
  #count = 0;

  set(act, ms) {
    this.#count += 1;
    this.#timers.set(this.#count, { at: this.now + ms, act });
    return this.#count;
  }

  clear(timer) {
    this.#timers.delete(timer);
  }

  get waiting() {
    return this.#timers.size;
  }

  // Lets time pass, stopping at each timer.
  async pass(ms) {
    const end = this.now + ms;
    for (;;) {
      const [next] = [...this.#timers].filter(([, { at }]) => at <= end).sort(([a, x], [b, y]) => x.at - y.at || a - b);
      if (!next) break;
      const [timer, { at, act }] = next;
      this.#timers.delete(timer);
      this.now = Math.max(this.now, at);
      act();
      await settle();
    }
    this.now = end;
  }
}

class FakeSocket {
  readyState = 0;
  sent = [];
  closedWith = null;

  constructor(url, subprotocols) {
    this.address = new URL(url);
    this.query = Object.fromEntries(this.address.searchParams);
    this.subprotocols = subprotocols;
  }

  send(text) {
    if (this.readyState !== 1) throw new Error("this socket is not open");
    this.sent.push(JSON.parse(text));
  }

  close(code) {
    this.closedWith = code;
    this.readyState = 3;
  }

  // ---- What the network and the server do

  say(...messages) {
    this.readyState = 1;
    for (const message of messages) {
      this.onmessage({ data: typeof message === "string" ? message : JSON.stringify(message) });
    }
  }

  async end(code = 1006, reason = "") {
    this.readyState = 3;
    this.onclose({ code, reason });
    await settle();
  }
}

export class Stage {
  sockets = [];
  told = [];
  clock = new Clock();
  random = 0.5;

  static async begin(options = {}) {
    const stage = new Stage();
    const { sockets, clock } = stage;
    class Socket extends FakeSocket {
      constructor(...how) {
        super(...how);
        sockets.push(this);
      }
    }
    stage.session = connect({
      url: "ws://server.example/ws",
      room: "r1",
      WebSocket: Socket,
      random: () => stage.random,
      now: () => (clock.restless ? clock.now++ : clock.now),
      setTimeout: (act, ms) => clock.set(act, ms),
      clearTimeout: (timer) => clock.clear(timer),
      ...options,
    });
    for (const name of EVENTS) stage.session.on(name, (...what) => stage.told.push([name, ...what]));
    await settle();
    return stage;
  }

  // Joined with an empty snapshot at 7-k2:41, as u1.
  static async open(options) {
    const stage = await Stage.begin(options);
    stage.join();
    stage.told.length = 0;
    return stage;
  }

  get socket() {
    return this.sockets.at(-1);
  }

  join({ snapshot = {}, ...joined } = {}) {
    const position = { epoch: "7-k2", seq: 41 };
    this.socket.say({ joined: { room: this.session.room, ...position, online: 2, you: { id: "u1" }, ...joined } });
    if (!joined.recovered && snapshot) this.socket.say({ snapshot: { ...position, items: [], room: {}, ...snapshot } });
  }

  // The connection is cut; the next one is up and has resumed.
  async resume(joined = {}) {
    await this.cut();
    this.join({ recovered: true, ...joined });
  }

  async cut(code) {
    const before = this.sockets.length;
    await this.socket.end(code);
    await this.clock.pass(this.last("state").retryInMs);
    if (this.sockets.length !== before + 1) throw new Error("the session did not come back");
  }

  events(name) {
    return this.told.filter(([kind]) => kind === name).map(([, ...what]) => what);
  }

  last(name) {
    return this.events(name).at(-1)?.[0];
  }

  send(...what) {
    return watch(this.session.send(...what));
  }

  ping() {
    return watch(this.session.ping());
  }

  // Texts of the comments that were shown, and numbers of the rest.
  shown() {
    return this.events("item").map(([item]) => item.text ?? item.seq);
  }

  sent(kind) {
    return this.socket.sent.filter((message) => kind in message).map((message) => message[kind]);
  }
}

export function comment(seq, more = {}) {
  return { seq, user: { id: "u2" }, text: `c${seq}`, at: 1_700_000_000_000, ...more };
}

export function batch(from, to, ...items) {
  return { batch: { from, to, items } };
}

// Keeps how a promise ended, from its beginning on, so that no rejection goes unheard.
export function watch(promise) {
  const watched = {};
  promise.then(
    (value) => (watched.value = value),
    (error) => (watched.error = error),
  );
  return watched;
}

// How a watched promise stands, without waiting for it.
export async function outcome(watched) {
  await settle();
  return "value" in watched || "error" in watched ? watched : "pending";
}
