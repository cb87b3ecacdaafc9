// What a session makes of ranges, gaps, epochs and snapshots. Each rule of the protocol has a test here or a
// scenario in clients/conformance, or both.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Stage, batch, comment } from "./stage.mjs";

test("a joined session shows the snapshot, then what is live, with defaults filled in", async () => {
  const stage = await Stage.begin();
  stage.join({ snapshot: { items: [comment(41, { user: { id: "u1" } })], room: { online: 9 } } });
  stage.socket.say(batch(42, 43, comment(42, { color: 0 }), { seq: 43, type: "gift", data: { gift: "rose" } }));
  const [[reset], ...more] = stage.events("reset");
  assert.deepEqual([reset, more], [{ reason: "snapshot" }, []]);
  const [first, second, third] = stage.events("item");
  assert.deepEqual(first, [
    { ...comment(41), user: { id: "u1", role: "viewer" }, mode: "scroll", color: 0xffffff, size: 25 },
    { source: "snapshot", own: true, epoch: "7-k2" },
  ]);
  assert.equal(second[0].color, 0);
  assert.deepEqual(second[1], { source: "live", own: false, epoch: "7-k2" });
  assert.deepEqual(third[0], { seq: 43, type: "gift", data: { gift: "rose" } });
  assert.equal(stage.session.online, 9);
  assert.deepEqual(stage.session.position, { epoch: "7-k2", seq: 43 });
});

test("of a range that is known only entries not shown yet are shown, and the cursor stays", async () => {
  const stage = await Stage.open();
  stage.socket.say(batch(42, 44, comment(42), comment(44)));
  stage.socket.say(batch(43, 43, comment(43)), batch(43, 43, comment(43)), batch(42, 46, comment(42), comment(46)));
  assert.deepEqual(stage.shown(), ["c42", "c44", "c43", "c46"]);
  assert.equal(stage.session.position.seq, 46);
});

test("a range beyond the cursor is a loss: nothing of it is shown, and the session comes back with since", async () => {
  const stage = await Stage.open();
  const first = stage.socket;
  first.say(batch(43, 43, comment(43)));
  assert.equal(first.closedWith, 1000);
  assert.equal(stage.session.state, "waiting");
  await stage.clock.pass(stage.last("state").retryInMs);
  assert.equal(stage.socket.query.since, "7-k2:41");
  assert.deepEqual(stage.shown(), []);
});

test("a position of an earlier session is presented at the first join", async () => {
  const stage = await Stage.begin({ since: { epoch: "7-k2", seq: 0, more: 1 } });
  assert.equal(stage.socket.query.since, "7-k2:0");
  stage.join({ seq: 1, recovered: true });
  stage.socket.say(batch(1, 1, comment(1)));
  assert.deepEqual([stage.shown(), stage.events("reset"), stage.session.position.seq], [["c1"], [], 1]);
});

test("what an abandoned connection still says is not heard", async () => {
  const stage = await Stage.open();
  const first = stage.socket;
  first.say(batch(44, 44, comment(44)));
  first.onmessage({ data: JSON.stringify(batch(42, 42, comment(42))) });
  first.onclose({ code: 4003, reason: "banned" });
  assert.equal(stage.session.state, "waiting");
  assert.deepEqual(stage.shown(), []);
});

test("what is missed is backlog up to the head at the join, and live beyond it", async () => {
  const stage = await Stage.open();
  await stage.resume({ seq: 43 });
  stage.socket.say(batch(42, 43, comment(42), comment(43)), batch(44, 44, comment(44)));
  assert.deepEqual(
    stage.events("item").map(([, { source }]) => source),
    ["backlog", "backlog", "live"],
  );
});

test("a join that was not recovered is told as lost exactly once", async () => {
  const stage = await Stage.open();
  await stage.cut();
  stage.join({ epoch: "9-k2", seq: 3, snapshot: { epoch: "9-k2", seq: 3, items: [comment(3)] } });
  assert.deepEqual(stage.events("reset"), [[{ reason: "lost" }]]);
  assert.equal(stage.last("joined").recovered, false);
  await stage.resume({ epoch: "9-k2", seq: 3 });
  assert.deepEqual(stage.events("reset").length, 1);
});

test("without snapshots a first join replaces nothing, a move does, and a loss is told", async () => {
  const stage = await Stage.begin({ snapshot: "none" });
  stage.join({ snapshot: null });
  assert.deepEqual([stage.events("reset"), stage.session.position], [[], { epoch: "7-k2", seq: 41 }]);
  stage.session.join("r2");
  stage.join({ snapshot: null, epoch: "e2", seq: 5 });
  await stage.cut();
  stage.join({ snapshot: null, epoch: "e3", seq: 6 });
  assert.deepEqual(stage.events("reset"), [[{ reason: "snapshot" }], [{ reason: "lost" }]]);
  await stage.resume({ epoch: "e3", seq: 6 });
  assert.deepEqual([stage.events("reset").length, stage.session.position], [2, { epoch: "e3", seq: 6 }]);
});

test("an epoch tells what to remove and is the epoch of what follows", async () => {
  const stage = await Stage.open();
  stage.socket.say(batch(42, 43, comment(42), comment(43)));
  stage.socket.say(
    { epoch: { epoch: "8-k2", seq: 4193, prev: { epoch: "7-k2", seq: 42 } } },
    batch(4194, 4194, comment(4194)),
  );
  assert.deepEqual(stage.events("remove"), [[{ epoch: "7-k2", after: 42 }]]);
  assert.equal(stage.events("item").at(-1)[1].epoch, "8-k2");
  await stage.cut();
  assert.equal(stage.socket.query.since, "8-k2:4194");
});

test("retract and clear are removals, and of no entry is anything shown twice", async () => {
  const stage = await Stage.open();
  const entries = [
    { seq: 42, type: "retract", seqs: [40] },
    { seq: 43, type: "retract", seqs: [5], epoch: "6-k2" },
    { seq: 44, type: "clear", upTo: 43 },
  ];
  stage.socket.say(batch(42, 44, ...entries), batch(42, 44, ...entries));
  assert.deepEqual(
    stage.events("remove").map(([what]) => what),
    [
      { epoch: "7-k2", seqs: [40] },
      { epoch: "6-k2", seqs: [5] },
      { epoch: "7-k2", upTo: 43 },
    ],
  );
  assert.deepEqual(stage.shown(), []);
});

test("an entry that is much older than what is remembered is taken for known", async () => {
  const stage = await Stage.open();
  const items = Array.from({ length: 5_000 }, (_, n) => comment(42 + n));
  stage.socket.say(batch(42, 5_041, ...items));
  for (let seq = 42; seq <= 5_041; seq += 1) stage.socket.say(batch(seq, seq, comment(seq)));
  assert.equal(stage.shown().length, 5_000);
});

test("a message that cannot be read ends the connection, not the session", async (t) => {
  const complaints = t.mock.method(console, "error", () => {});
  for (const broken of ["{", "null", '{"batch":null}', '{"batch":{"from":42,"to":42,"items":[null]}}']) {
    const stage = await Stage.open();
    stage.socket.say(broken);
    assert.equal(stage.session.state, "waiting", broken);
  }
  assert.equal(complaints.mock.callCount(), 4);
});

test("messages, fields and events that nobody knows disturb nothing", async () => {
  const stage = await Stage.open();
  stage.socket.say({ confetti: { from: 1 } }, { constructor: {} }, { __proto__: null, toString: 1 }, {});
  stage.socket.say({ batch: { from: 42, to: 42, items: [comment(42, { later: {} })], later: [] } });
  assert.deepEqual(stage.shown(), ["c42"]);
});

test("an exception in a listener reaches the console and nobody else", async (t) => {
  const complaints = t.mock.method(console, "error", () => {});
  const stage = await Stage.open();
  stage.session.on("item", () => {
    throw new Error("of the application");
  });
  const heard = [];
  const off = stage.session.on("item", ({ seq }) => heard.push(seq));
  stage.socket.say(batch(42, 43, comment(42), comment(43)));
  off();
  stage.socket.say(batch(44, 44, comment(44)));
  assert.deepEqual(heard, [42, 43]);
  assert.equal(complaints.mock.callCount(), 3);
  assert.equal(stage.session.state, "open");
});

test("a session closed by its own listener tells nothing more and leaves no timer", async () => {
  const stage = await Stage.open();
  stage.session.on("item", () => stage.session.close());
  stage.socket.say(batch(42, 43, comment(42), comment(43)));
  assert.deepEqual(stage.shown(), ["c42"]);
  assert.equal(stage.session.state, "closed");
  assert.equal(stage.clock.waiting, 0);
});

test("options that cannot be used are refused with the name, the value and what is right", async () => {
  const wrong = [
    [{ url: "http://server.example" }, /url is "http:.*ws:\/\//],
    [{ room: "a b" }, /room is "a b".*A-Z/],
    [{ WebSocket: 5 }, /WebSocket/],
    [{ snapshot: "br" }, /snapshot is "br"/],
    [{ density: 0 }, /density is 0/],
    [{ since: { epoch: "e", seq: 2 ** 53 } }, /since/],
    [{ since: { seq: 5 } }, /since/],
    [{ resendMs: -1 }, /resendMs is -1/],
    [{ joinMs: "soon" }, /joinMs is "soon"/],
  ];
  for (const [options, words] of wrong) await assert.rejects(Stage.begin(options), words);
});

test("a session closed in the middle of a message that cannot be read stays closed", async (t) => {
  t.mock.method(console, "error", () => {});
  const stage = await Stage.open();
  stage.session.on("room", () => stage.session.close());
  stage.socket.say('{"room":{},"batch":{"from":43,"to":43,"items":5}}', '{"gap":null}');
  assert.equal(stage.session.state, "closed");
  assert.equal(stage.clock.waiting, 0);
});
