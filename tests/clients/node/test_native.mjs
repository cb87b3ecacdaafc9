// The native protocol as npm's `ws` sees it: protobuf and JSON, without and with compression, alone
// and in a crowd.

import { Battery, argument, equal } from "./battery.mjs";
import { JSON_CODEC, PROTO_CODEC } from "./codec.mjs";
import { startServer } from "./server.mjs";
import { Session, freshRoom } from "./session.mjs";
import { NASTY, unlike } from "./texts.mjs";

const SUBSCRIBERS = 60;
const PUBLISHERS = 4;
const COMMENTS = 40;

async function negotiates(server, codec, deflate) {
  const viewer = await Session.open(server, freshRoom("offer"), codec, { deflate });
  equal(viewer.socket.protocol, codec.subprotocol, "subprotocol");
  equal(viewer.socket.extensions.includes("permessage-deflate"), deflate, "compression");
  await viewer.next("snapshot");
  equal(await viewer.close(), 1000, "close code");
}

async function publishes(server, codec, deflate) {
  const author = await Session.open(server, freshRoom("echo"), codec, { deflate });
  const seq = await author.publish("hello", { mode: "bottom", color: 0, size: 30 });
  const { text, mode, color, size, user } = await author.shown(seq);
  equal({ text, mode, color, size }, { text: "hello", mode: "bottom", color: 0, size: 30 }, "entry");
  equal(user.id, author.joined.you.id, "author");
  await author.close();
}

async function carriesNastyTexts(server, codec, deflate) {
  const room = freshRoom("nasty");
  const viewer = await Session.open(server, room, codec, { deflate, query: "&tier=full" });
  // The author speaks the other encoding, so that the texts cross from one to the other.
  const author = await Session.open(server, room, codec === JSON_CODEC ? PROTO_CODEC : JSON_CODEC, { deflate });
  const sent = [];
  for (const text of NASTY) sent.push([await author.publish(text), text]);
  await viewer.shown(sent.at(-1)[0]);
  equal(viewer.log.texts(), sent, "texts");
  await Promise.all([viewer.close(), author.close()]);
}

async function resumes(server, codec, deflate) {
  const room = freshRoom("resume");
  const author = await Session.open(server, room, codec, { deflate });
  const viewer = await Session.open(server, room, codec, { deflate });
  await viewer.shown(await author.publish("before"));
  await viewer.close();
  const since = { epoch: viewer.log.epoch, seq: viewer.log.cursor };
  const expected = [];
  for (const text of ["away 1", "away 2", "away 3"]) expected.push([await author.publish(text), text]);
  const back = await Session.open(server, room, codec, { deflate, since });
  equal(back.joined.recovered, true, "recovered");
  expected.push([await author.publish("live"), "live"]);
  await back.shown(expected.at(-1)[0]);
  equal(back.log.texts(), expected, "what was missed and what came after");
  equal(back.log.gaps, 0, "gaps");
  await Promise.all([back.close(), author.close()]);
}

async function moves(server, codec, deflate) {
  const [left, entered] = [freshRoom("left"), freshRoom("entered")];
  const mover = await Session.open(server, left, codec, { deflate });
  const waits = await Session.open(server, entered, codec, { deflate });
  mover.command("join", { room: entered });
  await mover.next("joined", { where: (body) => body.room === entered });
  const seq = await mover.publish("from the one that moved");
  equal((await waits.shown(seq)).text, "from the one that moved", "comment in the new room");
  await Promise.all([mover.close(), waits.close()]);
}

async function answersAndRefuses(server, codec, deflate) {
  const viewer = await Session.open(server, freshRoom("answer"), codec, { deflate });
  viewer.command("ping", { t: 1234 });
  equal((await viewer.next("pong")).body.t, 1234, "what the ping carried");
  const first = await viewer.publish("once", { id: "same" });
  equal(await viewer.publish("once", { id: "same" }), first, "sequence of a repeated id");
  equal((await viewer.fate("same", "other")).body.code, "id_reused", "other text under the same id");
  equal((await viewer.fate("long", "汉".repeat(101))).body.code, "text_too_long", "too long a text");
  await viewer.close();
}

// Frames of the type that the subprotocol does not have, and bytes that are no message.
async function closesOnNonsense(server, codec, deflate) {
  for (const [data, code] of codec.binary ? [["{}", 1003], [Buffer.from([0xff]), 1002]] : [[Buffer.from("{}"), 1003], ["{", 1002]]) {
    const viewer = await Session.open(server, freshRoom("nonsense"), codec, { deflate });
    viewer.socket.send(data);
    equal(await viewer.closed, code, `close code after ${data}`);
  }
}

// Both encodings and both ways of compression in one room at once.
async function carriesACrowd(server) {
  const room = freshRoom("crowd");
  const kind = (n) => [n % 2 ? PROTO_CODEC : JSON_CODEC, { deflate: n % 4 > 1, query: "&tier=full&snapshot=none" }];
  const open = (_, n) => Session.open(server, room, ...kind(n));
  const subscribers = await Promise.all(Array.from({ length: SUBSCRIBERS }, open));
  const authors = await Promise.all(Array.from({ length: PUBLISHERS }, open));
  const speak = async (author, who) => {
    const sent = [];
    for (let n = 0; n < COMMENTS; n += 1) {
      const text = unlike(who, n);
      sent.push([await author.publish(text), text]);
    }
    return sent;
  };
  const sent = (await Promise.all(authors.map(speak))).flat().sort((a, b) => a[0] - b[0]);
  await Promise.all(subscribers.map((subscriber) => subscriber.shown(sent.at(-1)[0])));
  for (const [n, subscriber] of subscribers.entries()) {
    equal(subscriber.log.texts(), sent, `log of ${n}`);
    equal(subscriber.log.gaps, 0, `gaps of ${n}`);
  }
  await Promise.all([...subscribers, ...authors].map((session) => session.close()));
}

const CASES = {
  "subprotocol and compression are what was asked for": negotiates,
  "a comment is acknowledged and echoed under one sequence": publishes,
  "nasty texts cross from one encoding to the other byte for byte": carriesNastyTexts,
  "a resumed session has neither hole nor double": resumes,
  "a session that moves speaks in its new room": moves,
  "commands are answered or refused by name": answersAndRefuses,
  "nonsense closes with the code that names it": closesOnNonsense,
};

const battery = new Battery();
const server = await startServer(argument("server"));
for (const codec of [PROTO_CODEC, JSON_CODEC]) {
  for (const deflate of [false, true]) {
    for (const [name, run] of Object.entries(CASES)) {
      const how = `${codec.subprotocol}, ${deflate ? "deflate" : "plain"}`;
      await battery.check(`${name} (${how})`, () => run(server, codec, deflate));
    }
  }
}
await battery.check("everybody in a mixed crowd hears every comment once and in order", () => carriesACrowd(server));
if (battery.failed) console.log(`the server said: ${server.said()}`);
await server.stop();
battery.finish();
