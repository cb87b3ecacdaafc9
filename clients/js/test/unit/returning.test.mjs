// When and how a session comes back, who it says it is, and when it stays away.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DanmakuError, connect } from "../../danmaku.js";
import { Stage, batch, comment, outcome, settle } from "./stage.mjs";

const tokenOf = ({ subprotocols }) => {
  const found = subprotocols.find((name) => name.startsWith("danmaku.auth."));
  return found && Buffer.from(found.slice("danmaku.auth.".length), "base64url").toString("utf8");
};

test("the first address holds what was asked for and no more", async () => {
  const stage = await Stage.begin({ url: "ws://server.example/ws?trial=1", tier: "lite", snapshot: "none" });
  assert.equal(stage.socket.address.href, "ws://server.example/ws?trial=1&room=r1&tier=lite&snapshot=none");
  assert.deepEqual(stage.socket.subprotocols, ["danmaku.v1.json"]);
});

test("in a page the server is where the page is from", async (t) => {
  t.after(() => delete globalThis.location);
  for (const [protocol, expected] of [
    ["http:", "ws://page.example:81/ws"],
    ["https:", "wss://page.example:81/ws"],
  ]) {
    globalThis.location = { protocol, host: "page.example:81" };
    const stage = await Stage.begin({ url: undefined });
    assert.equal(stage.socket.address.href, `${expected}?room=r1`);
  }
});

test("waiting times lie between 0 and a bound that doubles up to the cap", async () => {
  for (const [random, bounds] of [
    [0, [0, 0, 0]],
    [1, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]],
  ]) {
    const stage = await Stage.begin();
    stage.random = random;
    for (const bound of bounds) {
      await stage.socket.end();
      assert.deepEqual(stage.last("state").retryInMs, bound);
      await stage.clock.pass(bound);
    }
    assert.equal(stage.sockets.length, bounds.length + 1);
  }
});

test("waiting times start anew only after a connection that lasted", async () => {
  const stage = await Stage.begin();
  stage.random = 1;
  await stage.cut();
  await stage.cut();
  stage.join();
  await stage.clock.pass(9_999);
  await stage.cut();
  assert.equal(stage.last("state").attempt, 3);
  stage.join({ recovered: true });
  await stage.clock.pass(10_000);
  await stage.socket.end();
  assert.deepEqual([stage.last("state").attempt, stage.last("state").retryInMs], [1, 500]);
});

test("closes of the moment come back, all others end the session with their code", async () => {
  for (let code = 1000; code < 1016; code += 1) await check(code, [1000, 1001, 1005, 1006, 1011, 1012, 1013, 1014]);
  for (let code = 4000; code < 4016; code += 1) await check(code, [4008]);

  async function check(code, back) {
    const stage = await Stage.open();
    await stage.socket.end(code, "words");
    const { state, code: told } = stage.last("state");
    assert.equal(state, back.includes(code) ? "waiting" : "closed", String(code));
    assert.equal(told, [1005, 1006].includes(code) ? undefined : code);
    if (state === "closed") assert.equal(stage.clock.waiting, 0);
  }
});

test("a socket that cannot even be made is a failed attempt", async () => {
  const stage = await Stage.begin({
    WebSocket: class {
      constructor() {
        throw new Error("refused by the browser");
      }
    },
  });
  assert.deepEqual([stage.last("state").state, stage.last("state").reason], ["waiting", "refused by the browser"]);
});

test("an attempt that gets no answer is given up", async () => {
  const stage = await Stage.begin();
  await stage.clock.pass(14_999);
  assert.equal(stage.session.state, "connecting");
  await stage.clock.pass(1);
  assert.equal(stage.session.state, "waiting");
  assert.equal(stage.socket.closedWith, 1000);
});

test("a silent connection is asked, kept if it answers, and given up if not", async () => {
  const stage = await Stage.open();
  await stage.clock.pass(44_000);
  stage.socket.say({ room: {} });
  await stage.clock.pass(44_999);
  assert.deepEqual(stage.sent("ping"), []);
  await stage.clock.pass(1);
  assert.deepEqual(stage.sent("ping").length, 1);
  stage.socket.say({ pong: stage.sent("ping")[0] });
  await stage.clock.pass(55_000);
  assert.deepEqual(stage.sent("ping").length, 2);
  assert.equal(stage.session.state, "open");
  await stage.clock.pass(10_000);
  assert.equal(stage.session.state, "waiting");
});

test("reconnect is obeyed to the millisecond, and the connection is of use until then", async () => {
  const stage = await Stage.open();
  const first = stage.socket;
  first.say({ reconnect: { afterMs: 3_120, reason: "draining" } }, batch(42, 42, comment(42)));
  await stage.clock.pass(3_119);
  assert.equal(stage.sockets.length, 1);
  await stage.clock.pass(1);
  assert.deepEqual([first.closedWith, stage.sockets.length, stage.socket.query.since], [1000, 2, "7-k2:42"]);
  assert.equal(
    stage.events("state").some(([{ state }]) => state === "waiting"),
    false,
  );
});

test("the time that reconnect names holds when the connection ends before", async () => {
  const stage = await Stage.open();
  stage.socket.say({ reconnect: { afterMs: 3_000 } });
  await stage.clock.pass(1_000);
  await stage.socket.end(1012);
  assert.equal(stage.last("state").retryInMs, 2_000);
  await stage.clock.pass(1_999);
  assert.equal(stage.sockets.length, 1);
  await stage.clock.pass(1);
  assert.equal(stage.sockets.length, 2);
});

test("a server that asks to move again and again at once is not hammered", async () => {
  const stage = await Stage.open();
  stage.random = 1;
  const waited = [];
  for (let turn = 0; turn < 5; turn += 1) {
    const before = stage.clock.now;
    stage.socket.say({ reconnect: {} });
    const { length } = stage.sockets;
    while (stage.sockets.length === length) await stage.clock.pass(500);
    waited.push(stage.clock.now - before);
    stage.join({ recovered: true });
  }
  assert.deepEqual(waited, [500, 1_000, 2_000, 4_000, 8_000]);
});

test("an address named by the server is used until it fails; then the first one is", async () => {
  const stage = await Stage.open();
  stage.socket.say({ reconnect: { afterMs: 1, url: "ws://other.example/room?shard=7" } });
  await stage.clock.pass(1);
  assert.equal(stage.socket.address.href, "ws://other.example/room?shard=7&room=r1&since=7-k2%3A41");
  stage.join({ recovered: true });
  await stage.cut();
  assert.equal(stage.socket.address.host, "other.example");
  await stage.cut();
  assert.equal(stage.socket.address.host, "server.example");
});

test("an address that is none, or that would leave encryption, is not followed", async () => {
  for (const url of ["http://other.example/", "javascript:1", "", 5, "ws://other.example/ws"]) {
    const stage = await Stage.open({ url: "wss://server.example/ws" });
    stage.socket.say({ reconnect: { afterMs: 1, url } });
    await stage.clock.pass(1);
    assert.equal(stage.socket.address.host, "server.example", String(url));
  }
});

test("a network that is back is tried soon, but not before the server's own time", async (t) => {
  const listeners = new Map();
  globalThis.addEventListener = (name, listener) => listeners.set(name, listener);
  globalThis.removeEventListener = (name, listener) => listeners.get(name) === listener && listeners.delete(name);
  t.after(() => {
    delete globalThis.addEventListener;
    delete globalThis.removeEventListener;
  });
  const stage = await Stage.begin();
  stage.random = 1;
  for (let turn = 0; turn < 6; turn += 1) await stage.cut();
  await stage.socket.end();
  assert.equal(stage.last("state").retryInMs, 30_000);
  listeners.get("online")();
  assert.equal(stage.last("state").retryInMs, 500);
  await stage.clock.pass(500);
  stage.join();
  stage.socket.say({ reconnect: { afterMs: 60_000 } });
  await stage.socket.end(1012);
  const waiting = stage.last("state").retryInMs;
  listeners.get("online")();
  assert.equal(stage.last("state").retryInMs, waiting);
  stage.session.close();
  assert.equal(listeners.size, 0);
});

test("a token travels as base64url in a subprotocol, and a function is asked before each attempt", async () => {
  const given = ["~é?>", "second"];
  const stage = await Stage.begin({ token: async () => given.shift() });
  assert.match(stage.socket.subprotocols[1], /^danmaku\.auth\.[\w-]+$/);
  assert.equal(tokenOf(stage.socket), "~é?>");
  await stage.cut();
  assert.equal(tokenOf(stage.socket), "second");
});

test("a token function that fails is told and asked again with back-off", async () => {
  let fails = true;
  const token = () => (fails ? Promise.reject(new Error("no network")) : "t");
  const stage = await Stage.begin({ token });
  assert.equal(stage.sockets.length, 0);
  assert.equal(stage.last("error").code, "token_failed");
  assert.match(stage.last("error").message, /no network/);
  fails = false;
  await stage.clock.pass(stage.last("state").retryInMs);
  assert.equal(tokenOf(stage.socket), "t");
});

test("a token function that never answers is an attempt that fails", async () => {
  const stage = await Stage.begin({ token: () => new Promise(() => {}) });
  await stage.clock.pass(15_000);
  assert.equal(stage.session.state, "waiting");
});

test("after 4001 a token function is asked for another token; the same again ends the session", async () => {
  const given = ["first", "second", "second"];
  const stage = await Stage.begin({ token: () => given.shift() });
  stage.join();
  await stage.cut(4001);
  assert.equal(tokenOf(stage.socket), "second");
  await stage.socket.end(4001);
  await stage.clock.pass(30_000);
  assert.deepEqual([stage.session.state, stage.last("state").code, stage.sockets.length], ["closed", 4001, 2]);
});

test("a token reminder is answered by a new token, and the answer to it by nothing", async () => {
  let count = 0;
  const stage = await Stage.open({ token: async () => `t${(count += 1)}` });
  stage.socket.say({ auth: { expiresInMs: 60_000 } });
  await settle();
  assert.deepEqual(stage.sent("auth"), [{ token: "t2" }]);
  stage.socket.say({ auth: { expiresInMs: 3_600_000 } });
  await settle();
  assert.equal(count, 2);
  stage.socket.say({ auth: { expiresInMs: 60_000 } });
  await settle();
  stage.socket.say({ auth: { you: { id: "u9" } } });
  assert.deepEqual(stage.last("auth"), { you: { id: "u9", role: "viewer" } });
  stage.socket.say(batch(42, 42, comment(42, { user: { id: "u9" } })));
  assert.equal(stage.events("item")[0][1].own, true);
});

test("a refused refresh is told, and the next reminder asks again", async () => {
  const stage = await Stage.open({ token: () => "t" });
  stage.socket.say({ auth: { expiresInMs: 60_000 } });
  await settle();
  stage.socket.say({ error: { code: "token_invalid" } }, { auth: { expiresInMs: 30_000 } });
  await settle();
  assert.equal(stage.last("error").code, "token_invalid");
  assert.equal(stage.sent("auth").length, 2);
});

test("with nobody to ask, a token reminder is the application's, which can hand in another token", async () => {
  const stage = await Stage.open({ token: "t" });
  stage.socket.say({ auth: { expiresInMs: 60_000 } });
  assert.deepEqual(stage.last("auth"), { expiresInMs: 60_000 });
  await stage.session.auth("later");
  assert.deepEqual(stage.sent("auth"), [{ token: "later" }]);
  await stage.cut();
  assert.equal(tokenOf(stage.socket), "later");
});

test("a token that is handed in during an attempt is the one of the next, at once", async () => {
  const stage = await Stage.begin({ token: "first" });
  await stage.session.auth("second");
  assert.deepEqual(stage.sockets.map(tokenOf), ["first", "second"]);
  stage.join();
  assert.deepEqual([stage.session.state, stage.sent("auth")], ["open", []]);
});

test("a guest keeps its signed id over a return, and gives it up when the server does", async () => {
  const stage = await Stage.begin();
  assert.equal(tokenOf(stage.socket), undefined);
  stage.join({ you: { id: "g7", guest: "g7.c2ln" } });
  assert.equal(stage.session.you.guest, "g7.c2ln");
  await stage.cut();
  assert.equal(tokenOf(stage.socket), "g7.c2ln");
  await stage.cut(4001);
  assert.equal(tokenOf(stage.socket), undefined);
  const later = await Stage.begin({ guest: "g7.c2ln" });
  assert.equal(tokenOf(later.socket), "g7.c2ln");
});

test("a closed session tells what waits, and stays closed whatever is asked of it", async () => {
  const stage = await Stage.open();
  const waiting = [stage.send("unanswered"), stage.ping()];
  stage.session.close();
  stage.session.close();
  assert.equal(stage.socket.closedWith, 1000);
  assert.deepEqual(stage.events("state").length, 1);
  stage.session.join("r2");
  stage.session.pause();
  stage.session.react("like");
  assert.equal(stage.session.report(1, "spam"), false);
  for (const asked of [stage.send("late"), stage.ping()]) {
    assert.ok((await outcome(asked)).error instanceof DanmakuError);
  }
  assert.equal((await outcome(waiting[0])).error.code, "closed");
  assert.equal((await outcome(waiting[1])).error.code, "no_answer");
  assert.equal(stage.clock.waiting, 0);
  assert.equal(stage.sockets.length, 1);
});

test("a session that is closed before it began never connects", async () => {
  const made = [];
  const session = connect({
    url: "ws://server.example/ws",
    WebSocket: class {
      constructor() {
        made.push(this);
      }
    },
  });
  session.close();
  await settle();
  assert.deepEqual([session.state, made], ["closed", []]);
});
