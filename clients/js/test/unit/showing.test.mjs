// What reaches the screen, and when: pauses, tiers, density, the player's clock.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Stage, batch, comment } from "./stage.mjs";

test("a pause is told to the server, and to the next connection", async () => {
  const stage = await Stage.open();
  stage.session.pause();
  stage.session.pause();
  assert.deepEqual(stage.sent("view"), [{ paused: true }]);
  await stage.resume();
  assert.deepEqual(stage.sent("view"), [{ paused: true }]);
  stage.session.resume();
  assert.deepEqual(stage.sent("view").at(-1), {});
});

test("another tier is told at once, kept for the next connection, and does not end a pause", async () => {
  const stage = await Stage.open({ tier: "full" });
  stage.session.pause();
  stage.session.view({ tier: "lite" });
  assert.deepEqual(stage.sent("view").at(-1), { paused: true, tier: "lite" });
  await stage.cut();
  assert.equal(stage.socket.query.tier, "lite");
  stage.session.view({ tier: "standard" });
  stage.join({ recovered: true });
  assert.deepEqual(stage.sent("view"), [{ paused: true, tier: "standard" }]);
});

test("a hidden tab pauses and a visible one goes on, unless the caller pauses too", async (t) => {
  const listeners = new Set();
  globalThis.document = {
    hidden: true,
    addEventListener: (_, listener) => listeners.add(listener),
    removeEventListener: (_, listener) => listeners.delete(listener),
  };
  t.after(() => delete globalThis.document);
  const show = (visible) => {
    globalThis.document.hidden = !visible;
    for (const listener of listeners) listener();
  };
  const stage = await Stage.open();
  assert.deepEqual(stage.sent("view"), [{ paused: true }]);
  show(true);
  assert.deepEqual(stage.sent("view").at(-1), {});
  stage.session.pause();
  show(false);
  show(true);
  assert.deepEqual(stage.sent("view").at(-1), { paused: true });
  assert.equal(stage.sent("view").length, 3);
  const careless = await Stage.open({ pauseWhenHidden: false });
  show(false);
  assert.deepEqual(careless.sent("view"), []);
  stage.session.close();
  careless.session.close();
  assert.equal(listeners.size, 0);
});

test("a snapshot after a pause replaces what is shown and is the new place", async () => {
  const stage = await Stage.open();
  stage.socket.say({ snapshot: { epoch: "7-k2", seq: 900, items: [comment(900)] } }, batch(901, 901, comment(901)));
  assert.deepEqual(
    stage.told.map(([name]) => name),
    ["reset", "item", "item"],
  );
  assert.deepEqual(stage.session.position, { epoch: "7-k2", seq: 901 });
});

// A room of `perSecond` comments in batches every `everyMs`, for ten seconds; gives what passed, and when.
async function flood({ density, perSecond, everyMs }) {
  const stage = await Stage.open({ density });
  const passed = [];
  stage.session.on("item", ({ seq }) => passed.push({ at: stage.clock.now, seq }));
  let seq = 41;
  for (let ms = 0; ms < 10_000; ms += everyMs) {
    const items = Array.from({ length: (perSecond * everyMs) / 1_000 }, () => comment((seq += 1)));
    stage.socket.say(batch(items[0].seq, seq, ...items));
    await stage.clock.pass(everyMs);
  }
  return { passed, of: seq - 41, thinned: stage.session.thinned };
}

test("in no second do more comments pass than the density, however they come", async () => {
  for (const density of [1, 2, 3, 7, 30, 100]) {
    for (const everyMs of [20, 100, 250, 1_000]) {
      const { passed } = await flood({ density, perSecond: 1_000, everyMs });
      for (const { at } of passed) {
        const within = passed.filter((other) => other.at > at - 1_000 && other.at <= at).length;
        assert.ok(within <= density, `${within} in a second at a density of ${density}, every ${everyMs} ms`);
      }
    }
  }
});

test("over time most of the density is used, evenly, and what is left out is counted", async () => {
  const { passed, of, thinned } = await flood({ density: 30, perSecond: 1_000, everyMs: 100 });
  assert.ok(passed.length >= 10 * 30 * 0.7, `${passed.length} passed`);
  assert.equal(passed.length + thinned, of);
  for (let second = 0; second < 10; second += 1) {
    const within = passed.filter(({ at }) => Math.floor((at - 1_000) / 1_000) === second).length;
    assert.ok(within >= 20 && within <= 30, `${within} in second ${second}`);
  }
});

test("within a batch those that pass are spread over it", async () => {
  const stage = await Stage.open({ density: 40 });
  stage.socket.say(batch(42, 141, ...Array.from({ length: 100 }, (_, n) => comment(42 + n))));
  const seqs = stage.events("item").map(([{ seq }]) => seq - 42);
  assert.deepEqual(seqs, [9, 19, 29, 39, 49, 59, 69, 79, 89, 99]);
});

test("one's own, those of people with a role, events and the snapshot always pass", async () => {
  const stage = await Stage.begin({ density: 1 });
  const many = Array.from({ length: 20 }, (_, n) => comment(22 + n));
  stage.join({ snapshot: { items: many } });
  assert.equal(stage.shown().length, 20);
  stage.socket.say(batch(42, 61, ...many.map((item, n) => comment(42 + n))));
  assert.equal(stage.shown().length, 21);
  const roles = ["vip", "moderator", "streamer", "staff", "of tomorrow"];
  const passing = [
    comment(62, { user: { id: "u1" } }),
    ...roles.map((role, n) => comment(63 + n, { user: { id: "u5", role } })),
    { seq: 70, type: "gift", user: { id: "u2" }, data: {} },
    { seq: 71, type: "pin", of: 42 },
  ];
  stage.socket.say(batch(62, 71, ...passing));
  assert.equal(stage.shown().length, 21 + passing.length);
});

test("a quiet room is not thinned at all", async () => {
  const { passed, of } = await flood({ density: 30, perSecond: 20, everyMs: 100 });
  assert.equal(passed.length, of);
});

test("comments ahead of the player's clock are held until it gets there; others come at once", async () => {
  const stage = await Stage.open();
  let playerMs = 10_000;
  stage.session.align({ clock: () => playerMs });
  const at = (seq, streamMs) => comment(seq, { streamMs });
  stage.socket.say(batch(42, 46, at(42, 12_000), at(43, 9_000), at(44, 11_000), comment(45), at(46, 10_000)));
  assert.deepEqual(stage.shown(), ["c43", "c45", "c46"]);
  playerMs = 10_999;
  await stage.clock.pass(1_000);
  assert.deepEqual(stage.shown().slice(3), []);
  playerMs = 11_000;
  await stage.clock.pass(250);
  assert.deepEqual(stage.shown().slice(3), ["c44"]);
  playerMs = 12_500;
  await stage.clock.pass(250);
  assert.deepEqual(stage.shown().slice(4), ["c42"]);
  assert.equal(stage.session.position.seq, 46);
});

test("a player that is moved ahead gets what is due, in the stream's order, then in the room's", async () => {
  const stage = await Stage.open();
  let playerMs = 0;
  stage.session.align({ clock: () => playerMs });
  const times = [3_000, 1_000, 2_000, 1_000, 3_000];
  stage.socket.say(batch(42, 46, ...times.map((streamMs, n) => comment(42 + n, { streamMs }))));
  playerMs = 1e6;
  await stage.clock.pass(250);
  assert.deepEqual(stage.shown(), ["c43", "c45", "c44", "c42", "c46"]);
});

test("what is held is bounded: the earliest gives way", async () => {
  const stage = await Stage.open();
  stage.session.align({ clock: () => 0 });
  const items = Array.from({ length: 1_030 }, (_, n) => comment(42 + n, { streamMs: 5_000 + n }));
  stage.socket.say(batch(42, 1_071, ...items));
  assert.deepEqual(stage.shown(), ["c42", "c43", "c44", "c45", "c46", "c47"]);
});

test("what is removed, replaced or left behind while it is held is not shown later", async () => {
  const removals = [
    batch(43, 43, { seq: 43, type: "retract", seqs: [42] }),
    batch(43, 43, { seq: 43, type: "clear", upTo: 42 }),
    { epoch: { epoch: "8-k2", seq: 4193, prev: { epoch: "7-k2", seq: 41 } } },
    { snapshot: { epoch: "7-k2", seq: 50, items: [] } },
  ];
  for (const removal of removals) {
    const stage = await Stage.open();
    stage.session.align({ clock: () => 0 });
    stage.socket.say(batch(42, 42, comment(42, { streamMs: 1_000 })), removal);
    stage.session.align(null);
    assert.deepEqual(stage.shown(), [], JSON.stringify(removal));
  }
});

test("without a clock, or with one that fails, nothing is held", async (t) => {
  t.mock.method(console, "error", () => {});
  const stage = await Stage.open();
  stage.session.align({ clock: () => 0 });
  stage.socket.say(batch(42, 42, comment(42, { streamMs: 1_000 })));
  stage.session.align(null);
  const broken = () => {
    throw new Error("no player");
  };
  for (const [n, clock] of [() => NaN, () => undefined, broken].entries()) {
    stage.session.align({ clock });
    stage.socket.say(batch(43 + n, 43 + n, comment(43 + n, { streamMs: 1_000 })));
  }
  stage.session.align({ startMs: Date.now() - 5_000 });
  stage.socket.say(batch(46, 47, comment(46, { streamMs: 1_000 }), comment(47, { streamMs: 1e9 })));
  assert.deepEqual(stage.shown(), ["c42", "c43", "c44", "c45", "c46"]);
});
