// What becomes of what a session sends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DanmakuError } from "../../danmaku.js";
import { Stage, comment, batch, outcome, settle } from "./stage.mjs";

test("a comment is sent with what was given and nothing else, under an id of its own", async () => {
  const stage = await Stage.open();
  stage.send("one");
  stage.send("two", { mode: "top", color: 0, size: 36, streamMs: 0, traceparent: "00-…" });
  await settle();
  const [one, two] = stage.sent("send");
  assert.deepEqual(Object.keys(one).sort(), ["id", "text"]);
  assert.deepEqual(
    { ...two, id: 0 },
    { id: 0, text: "two", mode: "top", color: 0, size: 36, streamMs: 0, traceparent: "00-…" },
  );
  assert.match(one.id, /^[0-9a-z]{10}-1$/);
  assert.equal(two.id, one.id.replace(/1$/, "2"));
});

test("ids of two sessions differ by their prefix", async () => {
  const prefixes = new Set();
  for (const random of [0, 0.3, 0.999_999]) {
    const stage = await Stage.open({ random: () => random });
    stage.send("x");
    const [{ id }] = stage.sent("send");
    assert.match(id, /^[0-9a-z]{10}-1$/);
    prefixes.add(id);
  }
  assert.equal(prefixes.size, 3);
});

test("a promise is kept by the ack, with the epoch of its number", async () => {
  const stage = await Stage.open();
  const sent = ["a", "b", "c"].map((id) => stage.send(id, { id }));
  stage.socket.say({ ack: { id: "a", seq: 42 } }, { ack: { id: "b", state: "folded", seq: 7, epoch: "6-k2" } });
  stage.socket.say({ ack: { id: "c", state: "held" } }, { ack: { id: "nobody", seq: 1 } });
  assert.deepEqual(
    (await Promise.all(sent.map(outcome))).map(({ value }) => value),
    [
      { id: "a", state: "accepted", seq: 42, epoch: "7-k2" },
      { id: "b", state: "folded", seq: 7, epoch: "6-k2" },
      { id: "c", state: "held", seq: undefined, epoch: undefined },
    ],
  );
});

test("a refusal has the server's code and says whether and when to try again", async () => {
  const stage = await Stage.open({ silenceMs: 1e6 });
  const sent = ["a", "b"].map((id) => stage.send(id, { id }));
  stage.socket.say({ error: { id: "a", code: "rate_limited", message: "Words.", retryAfterMs: 480 } });
  stage.socket.say({ error: { id: "b", code: "not_stored", seq: 42, shown: true } });
  const [{ error: first }, { error: second }] = await Promise.all(sent.map(outcome));
  assert.ok(first instanceof DanmakuError && first instanceof Error);
  assert.deepEqual(
    { ...first, message: first.message },
    {
      name: "DanmakuError",
      message: "Words.",
      code: "rate_limited",
      retryable: true,
      shown: false,
      retryAfterMs: 480,
      id: "a",
    },
  );
  assert.deepEqual([second.code, second.retryable, second.shown, second.seq], ["not_stored", false, true, 42]);
  await stage.clock.pass(60_000);
  assert.equal(stage.sent("send").length, 2);
});

test("what has no answer goes out again, unchanged and in order, until it has one", async () => {
  const stage = await Stage.open();
  const sent = ["first", "second"].map((text) => stage.send(text, { color: 5 }));
  const before = stage.sent("send");
  await stage.resume();
  assert.deepEqual(stage.sent("send"), before);
  await stage.resume();
  assert.deepEqual(stage.sent("send"), before);
  stage.socket.say({ ack: { id: before[0].id, seq: 42 } });
  await stage.resume();
  assert.deepEqual(stage.sent("send"), [before[1]]);
  assert.deepEqual([(await outcome(sent[0])).value.seq, await outcome(sent[1])], [42, "pending"]);
});

test("what is written without a connection goes out with the next one", async () => {
  const stage = await Stage.begin();
  stage.send("early", { id: "e" });
  await settle();
  assert.deepEqual(stage.sent("send"), []);
  stage.join();
  assert.deepEqual(stage.sent("send"), [{ id: "e", text: "early" }]);
});

test("a comment without an answer is given up after resendMs, with or without a connection", async () => {
  for (const connected of [true, false]) {
    const stage = await Stage.open();
    const sent = stage.send("x");
    await settle();
    if (!connected) await stage.socket.end();
    await stage.clock.pass(59_999);
    assert.equal(await outcome(sent), "pending");
    await stage.clock.pass(1);
    assert.equal((await outcome(sent)).error.code, "no_answer");
  }
});

test("what says nothing about the comment is tried again when the server says, and its last words are told", async () => {
  for (const code of ["ids_full", "not_owner", "internal", "unavailable", "overloaded"]) {
    const stage = await Stage.open({ silenceMs: 1e6 });
    const sent = stage.send("x", { id: "a" });
    const refuse = (retryAfterMs) => stage.socket.say({ error: { id: "a", code, retryAfterMs } });
    refuse(200);
    await stage.clock.pass(199);
    assert.equal(stage.sent("send").length, 1);
    await stage.clock.pass(1);
    assert.equal(stage.sent("send").length, 2);
    refuse(100_000);
    await stage.clock.pass(60_000);
    assert.deepEqual([(await outcome(sent)).error.code, stage.sent("send").length], [code, 2]);
  }
});

test("what becomes ready between two looks at the clock is not forgotten", async () => {
  for (let retryAfterMs = 1; retryAfterMs <= 12; retryAfterMs += 1) {
    const stage = await Stage.open({ silenceMs: 1e6 });
    stage.send("x", { id: "a" });
    stage.clock.restless = true;
    stage.socket.say({ error: { id: "a", code: "not_owner", retryAfterMs } });
    await stage.clock.pass(1_000);
    assert.equal(stage.sent("send").length, 2, `after ${retryAfterMs} ms`);
  }
});

test("without a time of the server's the tries grow rarer", async () => {
  const stage = await Stage.open({ resendMs: 1e6 });
  stage.send("x", { id: "a" });
  const waits = [];
  for (let turn = 0; turn < 5; turn += 1) {
    const before = stage.clock.now;
    const { length } = stage.sent("send");
    stage.socket.say({ error: { id: "a", code: "internal" } });
    while (stage.sent("send").length === length) await stage.clock.pass(250);
    waits.push(stage.clock.now - before);
    stage.socket.say({ room: {} });
  }
  assert.deepEqual(waits, [1_500, 3_000, 6_000, 12_000, 12_000]);
});

test("errors that the server only counts make what is on the wire go out again", async () => {
  const stage = await Stage.open();
  const sent = stage.send("x", { id: "a" });
  stage.socket.say({ error: { code: "too_many_errors", count: 3 } });
  assert.equal(stage.last("error").count, 3);
  await stage.clock.pass(999);
  assert.equal(stage.sent("send").length, 1);
  await stage.clock.pass(1);
  assert.equal(stage.sent("send").length, 2);
  stage.socket.say({ ack: { id: "a", seq: 42 } });
  assert.equal((await outcome(sent)).value.seq, 42);
});

test("a long queue goes out at the pace of its answers and is bounded", async () => {
  const stage = await Stage.begin();
  const sent = Array.from({ length: 257 }, (_, n) => stage.send(`t${n}`, { id: `i${n}` }));
  assert.equal((await outcome(sent[256])).error.code, "queue_full");
  stage.join();
  assert.equal(stage.sent("send").length, 16);
  for (let n = 0; n < 256; n += 1) stage.socket.say({ ack: { id: `i${n}`, seq: 42 + n } });
  for (const one of sent.slice(0, 256)) assert.equal((await outcome(one)).value.state, "accepted");
  assert.deepEqual(
    stage.sent("send").map(({ id }) => id),
    Array.from({ length: 256 }, (_, n) => `i${n}`),
  );
  assert.deepEqual(await outcome(stage.send("next")), "pending");
});

test("an id that waits for its answer cannot be taken a second time, and can afterwards", async () => {
  const stage = await Stage.open();
  const first = stage.send("x", { id: "a" });
  assert.equal((await outcome(stage.send("y", { id: "a" }))).error.code, "id_in_use");
  stage.socket.say({ error: { id: "a", code: "rate_limited", retryAfterMs: 1 } });
  assert.equal((await outcome(first)).error.code, "rate_limited");
  stage.send("x", { id: "a" });
  await settle();
  assert.deepEqual(
    stage.sent("send").map(({ text }) => text),
    ["x", "x"],
  );
});

test("half a character is replaced, since it would end the connection; whole ones are untouched", async () => {
  const stage = await Stage.open();
  const family = "👩‍👩‍👧‍👦";
  stage.send(`${family.slice(0, 1)}|${family}|\\ud83d`);
  await settle();
  assert.equal(stage.sent("send")[0].text, `\ufffd|${family}|\\ud83d`);
});

test("a comment for another room than the present one is rejected, never sent there", async () => {
  const stage = await Stage.open();
  const answered = stage.send("answered", { id: "a" });
  const unanswered = stage.send("unanswered", { id: "u" });
  const resting = stage.send("resting", { id: "r" });
  stage.socket.say({ error: { id: "r", code: "not_owner", retryAfterMs: 50 } });
  stage.session.join("r2");
  assert.equal((await outcome(resting)).error.code, "moved");
  const next = stage.send("to r2", { id: "n" });
  stage.socket.say({ ack: { id: "a", seq: 42 } });
  assert.deepEqual((await outcome(answered)).value, { id: "a", state: "accepted", seq: 42, epoch: "7-k2" });
  assert.equal(stage.sent("send").length, 3);
  stage.join({ epoch: "e2", seq: 7, snapshot: { epoch: "e2", seq: 7 } });
  assert.equal(stage.sent("send").at(-1).id, "n");
  assert.equal(await outcome(unanswered), "pending");
  await stage.cut();
  assert.equal((await outcome(unanswered)).error.code, "moved");
  stage.join({ epoch: "e2", seq: 7, recovered: true });
  assert.deepEqual(stage.sent("send"), [{ id: "n", text: "to r2" }]);
  assert.equal(await outcome(next), "pending");
});

test("a move in the middle of another ends in the last room, and what comes between is not shown", async () => {
  const stage = await Stage.open();
  stage.session.join("r2");
  stage.session.join("r3");
  stage.socket.say(batch(42, 42, comment(42)));
  stage.join({ room: "r2", epoch: "e2", seq: 7, snapshot: { epoch: "e2", seq: 7, items: [comment(7)] } });
  stage.join({ room: "r3", epoch: "e3", seq: 9, snapshot: { epoch: "e3", seq: 9, items: [comment(9)] } });
  assert.deepEqual(stage.shown(), ["c9"]);
  assert.deepEqual(stage.session.position, { epoch: "e3", seq: 9 });
});

test("a move without a connection is the room of the next one", async () => {
  const stage = await Stage.open();
  await stage.socket.end();
  const lost = stage.send("to r1");
  stage.session.join("r2");
  assert.equal((await outcome(lost)).error.code, "moved");
  await stage.clock.pass(stage.last("state").retryInMs);
  assert.deepEqual(stage.socket.query, { room: "r2" });
  const begun = await Stage.begin();
  begun.session.join("r2");
  await settle();
  assert.deepEqual([begun.sockets.length, begun.sockets[0].closedWith, begun.socket.query.room], [2, 1000, "r2"]);
});

test("a refused room leads back to the old one without a hole", async () => {
  const stage = await Stage.open();
  stage.session.join("r9");
  stage.socket.say(batch(42, 42, comment(42)), { error: { code: "room_not_found" } });
  assert.deepEqual(stage.sent("join"), [{ room: "r9" }, { room: "r1", since: { epoch: "7-k2", seq: 41 } }]);
  stage.join({ seq: 42, recovered: true });
  stage.socket.say(batch(42, 42, comment(42)));
  assert.deepEqual([stage.session.room, stage.shown(), stage.events("reset")], ["r1", ["c42"], []]);
});

test("an old room that refuses too, or a join without an answer, leads over a new connection", async () => {
  const stage = await Stage.open();
  stage.session.join("r9");
  stage.socket.say({ error: { code: "room_not_found" } }, { error: { code: "too_many_rooms" } });
  assert.equal(stage.session.state, "waiting");
  const other = await Stage.open();
  other.session.join("r2");
  await other.clock.pass(15_000);
  assert.equal(other.session.state, "waiting");
});

test("reactions are added up and sent a few times a second, 20 in one message, never without bound", async () => {
  const stage = await Stage.open();
  stage.session.react("none", 0);
  for (let n = 0; n < 1_000; n += 1) stage.session.react("like");
  for (let n = 0; n < 40; n += 1) stage.session.react(`kind-${n}`, 2);
  assert.deepEqual(stage.sent("react"), []);
  await stage.clock.pass(300);
  assert.deepEqual(stage.sent("react").slice(0, 2), [
    { kind: "like", count: 20 },
    { kind: "kind-0", count: 2 },
  ]);
  assert.equal(stage.sent("react").length, 16);
  await stage.clock.pass(10_000);
  const likes = stage.sent("react").filter(({ kind }) => kind === "like");
  assert.equal(
    likes.reduce((sum, { count }) => sum + count, 0),
    200,
  );
});

test("a ping gives the round trip; without an answer or a connection it fails", async () => {
  const stage = await Stage.open();
  const ping = stage.ping();
  await stage.clock.pass(37);
  stage.socket.say({ pong: stage.sent("ping")[0] }, { pong: { t: 999 } });
  assert.deepEqual([(await outcome(ping)).value, stage.session.latencyMs], [37, 37]);
  const unanswered = stage.ping();
  await stage.clock.pass(9_999);
  assert.equal(await outcome(unanswered), "pending");
  await stage.clock.pass(1);
  const cut = stage.ping();
  await stage.socket.end();
  for (const failed of [unanswered, cut, stage.ping()]) assert.equal((await outcome(failed)).error.code, "no_answer");
});

test("pings without answers are bounded", async () => {
  const stage = await Stage.open();
  const pings = Array.from({ length: 17 }, () => stage.ping());
  assert.equal((await outcome(pings[16])).error.code, "no_answer");
  assert.equal(stage.sent("ping").length, 16);
});
