// Against the server at DANMAKU_URL, in Node.

import assert from "node:assert/strict";
import { test } from "node:test";
import WebSocket from "ws";
import { connect } from "../../danmaku.js";
import { Wire } from "./cut.mjs";
import { faults, talk } from "./talk.mjs";

const url = process.env.DANMAKU_URL;
if (!url) throw new Error("DANMAKU_URL is not set: it should be a server's endpoint, such as ws://127.0.0.1:8080/ws");
const room = () => `node-${Math.random().toString(36).slice(2)}`;

test("two sessions are shown the same in the same order, byte for byte, while one is cut off again and again", async () => {
  const wire = await Wire.to(url);
  try {
    const told = await talk({
      connect,
      near: wire.url,
      far: url,
      room: room(),
      cut: () => wire.cut(),
      more: { WebSocket },
    });
    assert.deepEqual(faults(told), []);
  } finally {
    await wire.close();
  }
});

test("a session goes on where an earlier one ended", async () => {
  const options = { url, room: room(), WebSocket };
  const first = connect(options);
  const { seq } = await first.send("first");
  await new Promise((resolve) => (first.position?.seq >= seq ? resolve() : first.on("item", resolve)));
  const since = first.position;
  await first.send("second");
  first.close();
  const later = connect({ ...options, since });
  const missed = [];
  const joined = new Promise((resolve) => later.on("joined", resolve));
  const live = new Promise((resolve) => {
    later.on("item", (item, { source }) => {
      missed.push([item.text, source]);
      if (source === "live") resolve();
    });
  });
  assert.equal((await joined).recovered, true);
  await later.send("third");
  await live;
  assert.deepEqual(missed, [
    ["second", "backlog"],
    ["third", "live"],
  ]);
  later.close();
});

test("an unknown position is told as lost, and the snapshot follows", async () => {
  const options = { url, room: room(), WebSocket };
  const first = connect(options);
  await first.send("still there");
  first.close();
  const later = connect({ ...options, since: { epoch: "never-was", seq: 5 } });
  const told = [];
  later.on("reset", ({ reason }) => told.push(reason));
  await new Promise((resolve) => later.on("item", (item) => resolve(told.push(item.text))));
  assert.deepEqual(told, ["lost", "still there"]);
  later.close();
});

test("a move to another room shows that room, and sends go there", async () => {
  const rooms = [room(), room()];
  const there = connect({ url, room: rooms[1], WebSocket });
  await there.send("was said there");
  const session = connect({ url, room: rooms[0], WebSocket });
  await session.send("here");
  const shown = [];
  session.on("item", ({ text }) => shown.push(text));
  session.join(rooms[1]);
  const heard = new Promise((resolve) => there.on("item", ({ text }) => text === "from here" && resolve()));
  await session.send("from here");
  await heard;
  assert.equal(shown.filter((text) => text !== "here")[0], "was said there");
  session.close();
  there.close();
});

test("the same id and text again get the same answer; another text is refused", async () => {
  const session = connect({ url, room: room(), WebSocket });
  const first = await session.send("once", { id: "mine" });
  assert.deepEqual(await session.send("once", { id: "mine" }), first);
  await assert.rejects(session.send("twice", { id: "mine" }), { code: "id_reused", retryable: false });
  session.close();
});

test("a refusal of the server's arrives as it is", async () => {
  const session = connect({ url, room: room(), WebSocket });
  await assert.rejects(session.send(""), { code: "text_empty", retryable: false });
  await assert.rejects(session.send("x".repeat(10_000)), { code: "text_too_long" });
  await session.send(`half a character: ${"👍".slice(0, 1)}`);
  session.close();
});
