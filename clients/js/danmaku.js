// The client of danmaku servers, for browsers and Node 20 or later, without dependencies.
//
// `connect` gives a session: it keeps one connection to one room, comes back after a loss without a
// hole, and sends comments until they are answered. README.md tells how to use it; the numbered rules
// below are those of the protocol's page, docs/protocol.md, "Ranges, resuming, gaps, epochs".
//
// SPDX-License-Identifier: Apache-2.0

const RETRYABLE = words(
  "ids_full muted slow_mode read_only rate_limited overloaded too_many_rooms " +
    "store_unavailable not_owner unavailable internal",
);
// These say nothing about the comment, so that nobody need be asked before it is sent again.
const SENT_AGAIN = words("ids_full not_owner internal unavailable overloaded");
// Without an id these may answer a join that is under way.
const REFUSES_JOIN = words(
  "room_invalid room_not_found room_closed room_ended too_many_rooms forbidden banned unauthorized " +
    "members_only followers_only level_too_low overloaded unavailable not_owner internal",
);
const REFUSES_TOKEN = words("token_expired token_invalid unauthorized replay_detected not_supported");
// 1001, 1005, 1006 and 1014 are written by networks and proxies, not by the server.
const COME_BACK = new Set([1000, 1001, 1005, 1006, 1011, 1012, 1013, 1014, 4008]);
const TOKEN_EXPIRED = 4001;

const DEFAULTS = {
  room: "lobby",
  snapshot: "json",
  pauseWhenHidden: true,
  resendMs: 60_000,
  backoffBaseMs: 500,
  backoffCapMs: 30_000,
  stableMs: 10_000,
  joinMs: 15_000,
  silenceMs: 45_000,
  answerMs: 10_000,
};
const TIMER_MS_MAX = 2 ** 31 - 1;
const WAITING_MAX = 256;
// Unanswered comments on the wire: a long queue goes out at the pace of its answers.
const FLYING_MAX = 16;
// Numbers remembered to know an entry that comes twice; only the newest can.
const SEEN_MAX = 2_048;
const HELD_MAX = 1_024;
// A player may be paused or moved: its clock is looked at again at least so often.
const CLOCK_MS = 250;
const PINGS_MAX = 16;
const REACT_MS = 300;
const REACT_COUNT_MAX = 20;
const REACT_KINDS_MAX = 16;
const REACT_WAITING_MAX = 200;
// The server answers a few errors a second one by one and sums up the rest.
const ERRORS_REST_MS = 1_000;

function words(text) {
  return new Set(text.split(" "));
}

/** Why something was refused. Decide by `code`, never by `message`. */
export class DanmakuError extends Error {
  constructor(code, message, { retryAfterMs, seq, shown, count, id } = {}) {
    super(message ?? code);
    this.name = "DanmakuError";
    Object.assign(this, { code, retryable: RETRYABLE.has(code), shown: shown ?? false });
    for (const [key, value] of Object.entries({ retryAfterMs, seq, count, id })) {
      if (value !== undefined) this[key] = value;
    }
  }
}

/** Begins a session; see README.md for the options. */
export function connect(options) {
  return new Session(checked(options ?? {}));
}

function checked(options) {
  const { document, location } = globalThis;
  const all = { ...DEFAULTS };
  for (const [key, value] of Object.entries(options)) if (value !== undefined) all[key] = value;
  all.url ??= location?.host && `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/ws`;
  all.WebSocket ??= globalThis.WebSocket;
  all.random ??= Math.random;
  all.now ??= steadyTime();
  all.setTimeout ??= (act, ms) => globalThis.setTimeout(act, ms);
  all.clearTimeout ??= (timer) => globalThis.clearTimeout(timer);
  all.document = all.pauseWhenHidden ? document : undefined;
  const refuse = (key, right) => {
    throw new TypeError(`${key} is ${JSON.stringify(all[key])}: it should be ${right}`);
  };
  if (!isEndpoint(all.url)) refuse("url", "an address that begins with ws:// or wss://");
  if (!isRoom(all.room)) refuse("room", "1 to 64 of A-Z a-z 0-9 _ -");
  if (typeof all.WebSocket !== "function") refuse("WebSocket", "a class; this platform has none of its own");
  if (!["json", "none"].includes(all.snapshot)) refuse("snapshot", '"json" or "none"');
  if (all.density !== undefined && !(all.density > 0)) refuse("density", "a number above 0");
  if (all.since && !(typeof all.since.epoch === "string" && Number.isSafeInteger(all.since.seq))) {
    refuse("since", "a session's position: {epoch, seq}");
  }
  for (const key of Object.keys(DEFAULTS).filter((key) => key.endsWith("Ms"))) {
    if (!(all[key] >= 0)) refuse(key, "a number of milliseconds");
  }
  return all;
}

// The time that never goes back. performance.now() stands still while some machines sleep: a comment
// would go out again long after the server has forgotten its id.
function steadyTime() {
  let latest = 0;
  return () => (latest = Math.max(latest, Date.now()));
}

function isEndpoint(url) {
  return typeof url === "string" && /^wss?:\/\//.test(url);
}

function isRoom(room) {
  return typeof room === "string" && /^[\w-]{1,64}$/.test(room);
}

// Subprotocols are of few characters: base64url without padding.
function inSubprotocol(token) {
  const bytes = String.fromCharCode(...new TextEncoder().encode(token));
  return `danmaku.auth.${btoa(bytes).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "")}`;
}

// Half a character, as cutting a text leaves it, is no JSON to the server.
function wellFormed(_, value) {
  return typeof value === "string" ? value.replace(/\p{Cs}/gu, "\ufffd") : value;
}

// What is absent is at its default.
function complete(item) {
  if (item.type) return item;
  const user = { role: "viewer", ...item.user };
  return { mode: "scroll", color: 0xffffff, size: 25, text: "", ...item, user };
}

// How far this client has been told: by ranges, never by counting.
class Cursor {
  // What is to be presented as `since`.
  position = null;
  // The epoch of numbers that carry none.
  epoch = null;
  #seen = new Set();
  #forgottenTo = 0;

  constructor(position) {
    if (position) {
      this.position = { epoch: position.epoch, seq: position.seq };
      this.epoch = position.epoch;
    }
  }

  // Rules 2 to 4; false means that something before this range was lost.
  cover(from, to) {
    if (from > this.position.seq + 1) return false;
    this.moveTo(to, this.epoch);
    return true;
  }

  moveTo(seq, epoch) {
    if (this.position && seq > this.position.seq) this.position = { epoch, seq };
  }

  // Whether an entry comes for the first time; the second time it is not.
  isNew(seq) {
    if (seq <= this.#forgottenTo || this.#seen.has(seq)) return false;
    this.#seen.add(seq);
    if (this.#seen.size > SEEN_MAX) {
      const [oldest] = this.#seen;
      this.#seen.delete(oldest);
      this.#forgottenTo = Math.max(this.#forgottenTo, oldest);
    }
    return true;
  }
}

// Leaves comments out evenly over time: at most `density` pass in any second. A quarter may come at
// once, the rest follows as time goes by; within a batch those that pass are spread over it.
class Thinner {
  #density;
  #now;
  #budget;
  #at;

  constructor(density, now) {
    this.#density = density;
    this.#now = now;
    this.#budget = Math.max(1, density / 4);
    this.#at = now();
  }

  leftOut(candidates) {
    const now = this.#now();
    const earned = ((now - this.#at) / 1000) * this.#density * 0.75;
    this.#budget = Math.min(Math.max(1, this.#density / 4), this.#budget + earned);
    this.#at = now;
    const all = candidates.length;
    const pass = Math.min(all, Math.floor(this.#budget));
    this.#budget -= pass;
    const share = (n) => Math.floor((n * pass) / all);
    return new Set(candidates.filter((_, n) => share(n + 1) === share(n)));
  }
}

// Comments ahead of the player's clock, the earliest first.
class Held {
  #list = [];

  // Takes one in; gives the earliest if there are too many.
  add(entry) {
    let [low, high] = [0, this.#list.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#list[middle].item.streamMs <= entry.item.streamMs) low = middle + 1;
      else high = middle;
    }
    this.#list.splice(low, 0, entry);
    return this.#list.length > HELD_MAX ? this.#list.shift() : undefined;
  }

  // Gives those whose time has come.
  due(clockMs) {
    const later = this.#list.findIndex(({ item }) => item.streamMs > clockMs);
    return this.#list.splice(0, later < 0 ? this.#list.length : later);
  }

  get nextMs() {
    return this.#list[0]?.item.streamMs;
  }

  forget(isGone) {
    this.#list = this.#list.filter((entry) => !isGone(entry));
  }
}

// Comments whose fate is not known. The same id and text go out again until there is an answer.
class Outbox {
  #waiting = new Map();
  #options;
  #prefix;
  #count = 0;

  constructor(options) {
    this.#options = options;
    const part = () =>
      Math.floor(options.random() * 36 ** 5)
        .toString(36)
        .padStart(5, "0");
    this.#prefix = part() + part();
  }

  add(room, fields) {
    this.#count += 1;
    const id = fields.id ?? `${this.#prefix}-${this.#count.toString(36)}`;
    if (this.#waiting.has(id)) {
      throw new DanmakuError("id_in_use", `a comment with the id ${JSON.stringify(id)} waits for its answer`, { id });
    }
    if (this.#waiting.size >= WAITING_MAX) {
      const message = `${WAITING_MAX} comments wait for their answer: send no more until some have it`;
      throw new DanmakuError("queue_full", message, { id });
    }
    return new Promise((resolve, reject) => {
      const message = { send: { ...fields, id } };
      const deadline = this.#options.now() + this.#options.resendMs;
      // One whose `readyAt` is Infinity is on the wire.
      this.#waiting.set(id, { message, room, deadline, readyAt: 0, refusals: 0, resolve, reject });
    });
  }

  // Gives the messages that are to go now, and rejects what has waited too long.
  due(room, now) {
    const messages = [];
    let flying = 0;
    for (const one of this.#waiting.values()) flying += one.readyAt === Infinity ? 1 : 0;
    for (const [id, one] of this.#waiting) {
      if (one.deadline <= now) {
        const { resendMs } = this.#options;
        this.#reject(id, one.refusal ?? new DanmakuError("no_answer", `no answer within ${resendMs} ms`, { id }));
      } else if (room === one.room && one.readyAt <= now && flying < FLYING_MAX) {
        one.readyAt = Infinity;
        flying += 1;
        messages.push(one.message);
      }
    }
    return messages;
  }

  // When `due` has something to do next; what could go now waits for a connection, not for time.
  nextAt(now) {
    let next = Infinity;
    for (const { readyAt, deadline } of this.#waiting.values()) {
      next = Math.min(next, deadline, readyAt > now ? readyAt : Infinity);
    }
    return next;
  }

  ack({ id, state = "accepted", seq, epoch }, present) {
    const one = this.#waiting.get(id);
    this.#waiting.delete(id);
    one?.resolve({ id, state, seq, epoch: seq === undefined ? undefined : (epoch ?? present) });
  }

  refuse(error) {
    const one = this.#waiting.get(error.id);
    if (!one) return;
    if (!SENT_AGAIN.has(error.code)) return this.#reject(error.id, error);
    const { now, random, backoffBaseMs } = this.#options;
    one.refusals += 1;
    one.refusal = error;
    one.readyAt = now() + (error.retryAfterMs ?? (1 + random()) * backoffBaseMs * 2 ** Math.min(one.refusals, 4));
  }

  // What is on the wire goes out again, after a while or with the next connection.
  again(afterMs) {
    for (const one of this.#waiting.values()) if (one.readyAt === Infinity) one.readyAt = this.#options.now() + afterMs;
  }

  // Comments belong to the room they were written in. With `flying` also those on the wire, which
  // get no answer any more.
  leave(room, flying) {
    for (const [id, one] of this.#waiting) {
      if (one.room === room || (!flying && one.readyAt === Infinity)) continue;
      const message = "the session moved to another room before there was an answer";
      this.#reject(id, new DanmakuError("moved", message, { id }));
    }
  }

  end() {
    for (const id of this.#waiting.keys()) {
      this.#reject(id, new DanmakuError("closed", "the session is closed", { id }));
    }
  }

  #reject(id, error) {
    const one = this.#waiting.get(id);
    this.#waiting.delete(id);
    one.reject(error);
  }
}

class Session {
  you = null;
  online = 0;
  latencyMs = null;
  thinned = 0;
  state = "connecting";
  room;
  #options;
  #listeners = new Map();
  #timers = new Map();
  #outbox;
  #thinner;
  #cursor;
  #held = new Held();
  #clock = null;
  #reactions = new Map();
  #pings = new Map();
  #pingCount = 0;
  #heardAt = 0;
  #onlineHandler = () => this.#networkIsBack();
  #hiddenHandler = () => this.#sayView();
  #pausedByCaller = false;
  // The view that the server knows of.
  #said = {};
  // The connection: its number tells late news of an earlier one apart.
  #number = 0;
  #socket = null;
  #attempts = 0;
  #token = null;
  #deadToken = null;
  #tokenSent = false;
  #moveAt = null;
  #movedUrl = null;
  // Joins that are not answered yet; what comes before the last answer is not of this room.
  #joins = 0;
  #presented = false;
  #cameFrom = null;
  #resetReason = null;
  #backlogTo = 0;

  constructor(options) {
    this.#options = options;
    this.room = options.room;
    this.#outbox = new Outbox(options);
    this.#cursor = new Cursor(options.since);
    if (options.density) this.#thinner = new Thinner(options.density, options.now);
    options.document?.addEventListener("visibilitychange", this.#hiddenHandler);
    globalThis.addEventListener?.("online", this.#onlineHandler);
    queueMicrotask(() => this.state === "connecting" && this.#open());
  }

  get position() {
    return this.#cursor.position && { ...this.#cursor.position };
  }

  on(name, listener) {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  async send(text, { mode, color, size, streamMs, id, traceparent } = {}) {
    if (this.state === "closed") throw new DanmakuError("closed", "the session is closed");
    const answer = this.#outbox.add(this.room, { id, text: String(text), mode, color, size, streamMs, traceparent });
    this.#pump();
    return answer;
  }

  react(kind, count = 1) {
    if (this.state !== "open" || !(count > 0)) return;
    if (!this.#reactions.has(kind) && this.#reactions.size >= REACT_KINDS_MAX) return;
    this.#reactions.set(kind, Math.min(REACT_WAITING_MAX, (this.#reactions.get(kind) ?? 0) + count));
    if (!this.#timers.has("react")) this.#timer("react", REACT_MS, () => this.#sendReactions());
  }

  report(seq, reason) {
    return this.#transmit({ report: { seq, reason } });
  }

  view({ tier }) {
    this.#options.tier = tier;
    this.#sayView();
  }

  pause() {
    this.#pausedByCaller = true;
    this.#sayView();
  }

  resume() {
    this.#pausedByCaller = false;
    this.#sayView();
  }

  join(room) {
    if (!isRoom(room)) throw new TypeError(`room is ${JSON.stringify(room)}: it should be 1 to 64 of A-Z a-z 0-9 _ -`);
    if (room === this.room || this.state === "closed") return;
    // Refused, the session goes back to the room it was in.
    if (!this.#joins && this.#socket) this.#cameFrom = { room: this.room, cursor: this.#cursor };
    this.room = room;
    this.#restart(new Cursor());
    this.#outbox.leave(room, false);
    this.#held.forget(() => true);
    if (this.#sayJoin({ room })) return;
    if (this.state === "connecting") this.#open();
  }

  auth(token) {
    this.#options.token = token;
    if (this.state === "connecting") this.#open();
    return this.#refresh();
  }

  ping() {
    return new Promise((resolve, reject) => {
      const { now, answerMs, setTimeout } = this.#options;
      const t = this.#pings.size < PINGS_MAX && this.#sendPing();
      if (!t) return reject(new DanmakuError("no_answer", "there is no connection to ask"));
      const timer = setTimeout(() => this.#endPing(t), answerMs);
      this.#pings.set(t, { at: now(), timer, resolve, reject });
    });
  }

  align(how) {
    const { clock, startMs } = how ?? {};
    this.#clock = clock ?? (startMs === undefined ? null : () => Date.now() - startMs);
    this.#release();
  }

  close() {
    this.#end({ reason: "closed by the application" });
  }

  #tell(name, ...what) {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        listener(...what);
      } catch (error) {
        console.error(error);
      }
    }
  }

  #enter(state, more) {
    this.state = state;
    this.#tell("state", { state, attempt: this.#attempts, ...more });
  }

  #timer(name, ms, act) {
    this.#options.clearTimeout(this.#timers.get(name));
    this.#timers.delete(name);
    if (!act) return;
    const fire = () => {
      this.#timers.delete(name);
      act();
    };
    this.#timers.set(name, this.#options.setTimeout(fire, Math.min(Math.max(0, ms), TIMER_MS_MAX)));
  }

  #restart(cursor) {
    this.#cursor = cursor;
    this.#presented = false;
    this.#resetReason = null;
  }

  // ---- The connection

  async #open() {
    this.#leave();
    const number = this.#number;
    this.#moveAt = null;
    this.#limitJoin();
    this.#enter("connecting");
    try {
      const token = await this.#askToken();
      if (number !== this.#number) return;
      if (this.#deadToken !== null && token === this.#deadToken) {
        return this.#end({ code: TOKEN_EXPIRED, reason: "the token ran out, and there is no other" });
      }
      this.#token = token;
      this.#deadToken = null;
      this.#dial(number);
    } catch (error) {
      if (number === this.#number) this.#lost({ reason: error.message });
    }
  }

  #dial(number) {
    const { WebSocket, tier, snapshot, url } = this.#options;
    const { position } = this.#cursor;
    const address = new URL(this.#movedUrl ?? url);
    const since = position && `${position.epoch}:${position.seq}`;
    const query = { room: this.room, tier, snapshot: snapshot === "none" && snapshot, since };
    for (const [key, value] of Object.entries(query)) if (value) address.searchParams.set(key, value);
    const subprotocols = ["danmaku.v1.json"];
    if (this.#token) subprotocols.push(inSubprotocol(this.#token));
    const socket = new WebSocket(address.href, subprotocols);
    this.#socket = socket;
    this.#joins = 1;
    this.#presented = position !== null;
    this.#said = { paused: false, tier };
    const ifPresent = (act) => (event) => number === this.#number && act(event);
    socket.onmessage = ifPresent(({ data }) => this.#receive(data));
    socket.onclose = ifPresent(({ code, reason }) => this.#lost({ code, reason }));
    // What went wrong is in the close event.
    socket.onerror = () => {};
  }

  // Lets go of the connection, if there is one.
  #leave() {
    const socket = this.#socket;
    this.#number += 1;
    this.#socket = null;
    this.#joins = 0;
    this.#cameFrom = null;
    this.#tokenSent = false;
    this.#reactions.clear();
    for (const name of ["retry", "join", "stable", "silence", "answer", "move", "react"]) this.#timer(name);
    for (const t of [...this.#pings.keys()]) this.#endPing(t);
    this.#outbox.again(0);
    this.#outbox.leave(this.room, true);
    try {
      socket?.close(1000);
    } catch {
      // A socket that cannot be closed is of no further use either.
    }
  }

  #lost({ code, reason }) {
    if (this.state === "closed") return;
    const wasOpen = this.state === "open";
    this.#leave();
    if (code === 1005 || code === 1006) code = undefined;
    if (code !== undefined && !COME_BACK.has(code) && !this.#hasOtherToken(code)) return this.#end({ code, reason });
    // An address that was named by the server and does not answer is given up for the first one.
    if (!wasOpen && this.#moveAt === null) this.#movedUrl = null;
    const { now } = this.#options;
    const retryInMs = this.#moveAt === null ? this.#backoff() : Math.max(0, this.#moveAt - now());
    this.#wait(retryInMs, { code, reason });
  }

  // Whether something has changed since a close that nothing else mends.
  #hasOtherToken(code) {
    const { token, guest } = this.#options;
    if (code !== TOKEN_EXPIRED) return false;
    if (typeof token === "function") this.#deadToken = this.#token;
    else if (token || !guest) return false;
    // A guest goes on as another guest.
    else this.#options.guest = undefined;
    return true;
  }

  // Anything from 0 up to a bound that doubles: a crowd thrown out together does not return together.
  #backoff() {
    const { backoffBaseMs, backoffCapMs, random } = this.#options;
    return random() * Math.min(backoffCapMs, backoffBaseMs * 2 ** Math.min(this.#attempts, 30));
  }

  #wait(retryInMs, why) {
    this.#attempts += 1;
    this.#timer("retry", retryInMs, () => this.#open());
    this.#enter("waiting", { retryInMs, ...why });
  }

  #networkIsBack() {
    if (this.state !== "waiting" || this.#moveAt !== null) return;
    this.#attempts = 0;
    this.#wait(this.#backoff(), { reason: "the network is back" });
  }

  #end(why) {
    if (this.state === "closed") return;
    this.state = "closed";
    this.#leave();
    for (const name of [...this.#timers.keys()]) this.#timer(name);
    this.#outbox.end();
    this.#held.forget(() => true);
    this.#options.document?.removeEventListener("visibilitychange", this.#hiddenHandler);
    globalThis.removeEventListener?.("online", this.#onlineHandler);
    this.#enter("closed", why);
    this.#listeners.clear();
  }

  // A connection can be dead without a word, and a page cannot see the server's pings.
  #listen(afterMs) {
    this.#timer("silence", afterMs, () => {
      const { now, silenceMs, answerMs } = this.#options;
      const left = this.#heardAt + silenceMs - now();
      if (left > 0) return this.#listen(left);
      this.#sendPing();
      this.#timer("answer", answerMs, () => {
        if (this.#heardAt + silenceMs > now()) this.#listen(silenceMs);
        else this.#lost({ reason: "the server is silent" });
      });
    });
  }

  // ---- What goes out

  #transmit(message) {
    // 1 is OPEN; injected classes need not have the name.
    if (this.#socket?.readyState !== 1) return false;
    this.#socket.send(JSON.stringify(message, wellFormed));
    return true;
  }

  #sayJoin(join) {
    if (!this.#transmit({ join })) return false;
    this.#joins += 1;
    this.#limitJoin();
    return true;
  }

  #limitJoin() {
    this.#timer("join", this.#options.joinMs, () => this.#lost({ reason: "not joined in time" }));
  }

  #pump() {
    const joined = this.state === "open" && !this.#joins;
    // One moment for both: what becomes ready between two looks at the clock would be neither due nor waited for.
    const now = this.#options.now();
    for (const message of this.#outbox.due(joined ? this.room : null, now)) this.#transmit(message);
    const nextAt = this.#outbox.nextAt(now);
    this.#timer("outbox", nextAt - this.#options.now(), nextAt < Infinity && (() => this.#pump()));
  }

  #sendReactions() {
    for (const [kind, waiting] of [...this.#reactions]) {
      const count = Math.min(waiting, REACT_COUNT_MAX);
      this.#transmit({ react: { kind, count } });
      if (waiting > count) this.#reactions.set(kind, waiting - count);
      else this.#reactions.delete(kind);
    }
    if (this.#reactions.size) this.#timer("react", REACT_MS, () => this.#sendReactions());
  }

  #sayView() {
    if (this.state !== "open") return;
    const { document, tier } = this.#options;
    const view = { paused: this.#pausedByCaller || Boolean(document?.hidden), tier };
    if (view.paused === this.#said.paused && tier === this.#said.tier) return;
    if (this.#transmit({ view: { paused: view.paused || undefined, tier } })) this.#said = view;
  }

  #sendPing() {
    this.#pingCount += 1;
    return this.#transmit({ ping: { t: this.#pingCount } }) ? this.#pingCount : 0;
  }

  #endPing(t, answer) {
    const { at, timer, resolve, reject } = this.#pings.get(t) ?? {};
    if (!this.#pings.delete(t)) return;
    this.#options.clearTimeout(timer);
    if (!answer) return reject(new DanmakuError("no_answer", "the server did not answer the ping"));
    this.latencyMs = this.#options.now() - at;
    resolve(this.latencyMs);
  }

  async #askToken() {
    const { token, guest } = this.#options;
    try {
      return (typeof token === "function" ? await token() : token) || guest || null;
    } catch (reason) {
      const error = new DanmakuError("token_failed", `no token could be had: ${reason?.message ?? reason}`);
      this.#tell("error", error);
      throw error;
    }
  }

  async #refresh() {
    const number = this.#number;
    const token = await this.#askToken().catch(() => null);
    if (!token || number !== this.#number || !this.#transmit({ auth: { token } })) return;
    this.#token = token;
    this.#tokenSent = true;
  }

  // ---- What comes in

  #receive(data) {
    this.#heardAt = this.#options.now();
    try {
      for (const [kind, body] of Object.entries(JSON.parse(data))) this.#take(kind, body);
    } catch (error) {
      console.error(error);
      this.#lost({ reason: "a message of the server could not be read" });
    }
  }

  #take(kind, body) {
    // Between a join and its answer the old room goes on; it is of no interest any more, and should
    // the join be refused, the cursor stays where the caller was told to.
    const ofRoom = !this.#joins;
    if (kind === "joined") this.#joined(body);
    else if (kind === "ack") this.#acked(body);
    else if (kind === "error") this.#refused(body);
    else if (kind === "auth") this.#authAnswered(body);
    else if (kind === "reconnect") this.#asksToMove(body);
    else if (kind === "pong") this.#endPing(body.t, true);
    else if (!ofRoom) return;
    else if (kind === "batch") this.#batch(body);
    else if (kind === "snapshot") this.#snapshot(body);
    else if (kind === "gap") this.#gap(body);
    else if (kind === "epoch") this.#epoch(body);
    else if (kind === "room") this.#roomUpdate(body);
    else if (kind === "pending") this.#tell("pending", body);
  }

  #joined(body) {
    this.#joins -= 1;
    if (this.#joins) return;
    const joined = { recovered: false, ...body };
    const { epoch, seq, you } = joined;
    const keepsPlace = joined.recovered && this.#cursor.position !== null;
    const awaitsSnapshot = !keepsPlace && this.#options.snapshot !== "none";
    const reason = this.#presented ? "lost" : (this.#resetReason ?? "snapshot");
    const moved = this.#cameFrom !== null;
    this.#cameFrom = null;
    this.#presented = false;
    this.#backlogTo = keepsPlace ? seq : 0;
    // Rule 1.
    if (!keepsPlace) this.#cursor = new Cursor(awaitsSnapshot ? null : { epoch, seq });
    this.#cursor.epoch = epoch;
    this.#resetReason = awaitsSnapshot ? reason : null;
    this.online = joined.online ?? 0;
    this.#timer("join");
    if (this.state !== "open") {
      this.#timer("stable", this.#options.stableMs, () => (this.#attempts = 0));
      this.#listen(this.#options.silenceMs);
    }
    this.#identify(you ?? {});
    if (this.state !== "open") this.#enter("open");
    this.#tell("joined", joined);
    if (!keepsPlace && !awaitsSnapshot && (moved || reason === "lost")) this.#reset(reason);
    this.#sayView();
    this.#pump();
  }

  #identify(you) {
    this.you = { role: "viewer", ...you };
    if (you.guest) this.#options.guest = you.guest;
  }

  #batch({ from, to, items = [] }) {
    if (!this.#cursor.position) return;
    if (!this.#cursor.cover(from, to)) return this.#lost({ reason: "entries were lost on the way" });
    this.#entries(items, to <= this.#backlogTo ? "backlog" : "live");
  }

  #snapshot({ epoch, seq, items = [], room }) {
    this.#cursor = new Cursor({ epoch, seq });
    this.#backlogTo = 0;
    // One that no join announced takes the place of what was missed during a pause.
    this.#reset(this.#resetReason ?? "snapshot");
    this.#entries(items, "snapshot");
    if (room) this.#roomUpdate(room);
  }

  #reset(reason) {
    this.#resetReason = null;
    this.#held.forget(() => true);
    this.#tell("reset", { reason });
  }

  #entries(items, source) {
    const { epoch } = this.#cursor;
    const fresh = items.filter(({ seq }) => this.#cursor.isNew(seq)).map(complete);
    const mayGo = ({ type, user }) => !type && user.role === "viewer" && user.id !== this.you.id;
    const leftOut = source !== "snapshot" && this.#thinner?.leftOut(fresh.filter(mayGo));
    this.thinned += leftOut ? leftOut.size : 0;
    for (const item of fresh) if (!leftOut || !leftOut.has(item)) this.#entry(item, source, epoch);
  }

  #entry(item, source, epoch) {
    if (item.type === "retract") return this.#remove({ epoch: item.epoch ?? epoch, seqs: item.seqs ?? [] });
    if (item.type === "clear") return this.#remove({ epoch, upTo: item.upTo ?? 0 });
    const own = item.user?.id !== undefined && item.user.id === this.you.id;
    const entry = { item, how: { source, own, epoch } };
    const early = source !== "snapshot" && !item.type && item.streamMs > this.#clockMs();
    if (early) entry.earliest = this.#held.add(entry);
    const now = early ? entry.earliest : entry;
    if (now) this.#tell("item", now.item, now.how);
    if (early) this.#release();
  }

  #remove(what) {
    const { epoch, seqs, upTo, after } = what;
    const gone = ({ item: { seq }, how }) =>
      seqs ? seqs.includes(seq) : upTo !== undefined ? seq <= upTo : how.epoch === epoch && seq > after;
    this.#held.forget(gone);
    this.#tell("remove", what);
  }

  #clockMs() {
    if (!this.#clock) return Infinity;
    try {
      const ms = Number(this.#clock());
      return Number.isNaN(ms) ? Infinity : ms;
    } catch (error) {
      console.error(error);
      return Infinity;
    }
  }

  // Lets go of the comments whose time has come.
  #release() {
    const clockMs = this.#clockMs();
    for (const { item, how } of this.#held.due(clockMs)) this.#tell("item", item, how);
    const { nextMs } = this.#held;
    const soon = Math.min(CLOCK_MS, nextMs - clockMs);
    this.#timer("clock", soon, nextMs !== undefined && (() => this.#release()));
  }

  // Rule 5.
  #gap({ epoch = this.#cursor.epoch, from, to, reason }) {
    this.#cursor.moveTo(to, epoch);
    this.#tell("gap", { epoch, from, to, reason });
  }

  // Rule 6. Before the snapshot there is no place, and the snapshot will be of the new epoch.
  #epoch({ epoch, seq, prev }) {
    this.#cursor.epoch = epoch;
    if (this.#cursor.position) this.#cursor.position = { epoch, seq };
    if (prev) this.#remove({ epoch: prev.epoch, after: prev.seq });
  }

  #roomUpdate(body) {
    const room = { online: 0, viewers: 0, reactions: {}, slowModeMs: 0, ...body };
    this.online = room.online;
    this.#tell("room", room);
  }

  #acked(body) {
    // Until the answer to a join the current epoch is the old room's.
    const { epoch } = this.#cameFrom?.cursor ?? this.#cursor;
    this.#outbox.ack(body, epoch ?? undefined);
    this.#pump();
  }

  #refused(body) {
    const error = new DanmakuError(body.code, body.message, body);
    if (body.id !== undefined) {
      this.#outbox.refuse(error);
      return this.#pump();
    }
    if (this.#tokenSent && REFUSES_TOKEN.has(error.code)) this.#tokenSent = false;
    // Among those summed up may be comments; asking again about one that was taken changes nothing.
    if (error.code === "too_many_errors") {
      this.#outbox.again(ERRORS_REST_MS);
      this.#pump();
    }
    this.#tell("error", error);
    if (this.state === "open" && this.#joins && REFUSES_JOIN.has(error.code)) this.#goBack();
  }

  #goBack() {
    this.#joins -= 1;
    if (this.#joins) return;
    if (!this.#cameFrom) return this.#lost({ reason: "no room could be joined" });
    const { room, cursor } = this.#cameFrom;
    this.#cameFrom = null;
    this.room = room;
    this.#restart(cursor);
    this.#presented = cursor.position !== null;
    this.#outbox.leave(room, false);
    // Joining the present room only resumes.
    this.#sayJoin({ room, since: cursor.position ?? undefined });
  }

  #authAnswered({ you, expiresInMs }) {
    const isAnswer = this.#tokenSent;
    this.#tokenSent = false;
    if (you) {
      this.#identify(you);
      this.#tell("auth", { you: this.you });
    } else if (!isAnswer) {
      if (typeof this.#options.token === "function") this.#refresh();
      else this.#tell("auth", { expiresInMs });
    }
  }

  #asksToMove({ afterMs = 0, reason, url }) {
    const { now, url: first } = this.#options;
    // Nothing that was said in secret goes on in the open.
    const usable = isEndpoint(url) && (url.startsWith("wss:") || !first.startsWith("wss:"));
    this.#movedUrl = usable ? url : this.#movedUrl;
    // Asked again and again by connections that do not last, wait all the same.
    const inMs = this.#attempts ? Math.max(afterMs, this.#backoff()) : afterMs;
    this.#attempts += 1;
    this.#moveAt = now() + inMs;
    this.#timer("move", inMs, () => this.#open());
    this.#tell("reconnect", { afterMs, reason, url });
  }
}
