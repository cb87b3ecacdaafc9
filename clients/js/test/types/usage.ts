// Uses everything that the types promise. Each @ts-expect-error is a mistake that they must find.

import { DanmakuError, connect, type Item, type Position, type Session } from "../../danmaku.js";

const since: Position | null = null;
const session: Session = connect({
  url: "ws://localhost:8080/ws",
  room: "lobby",
  token: async () => "token",
  tier: "standard",
  snapshot: "json",
  since,
  density: 30,
  WebSocket,
  random: Math.random,
  now: () => performance.now(),
  setTimeout: (act, ms) => setTimeout(act, ms),
  clearTimeout: (timer) => clearTimeout(timer),
});

function show(item: Item): string {
  if (item.type === undefined)
    return `${item.user.id} (${item.user.role}): ${item.text} ${item.mode} ${item.color} ${item.at}`;
  if (item.type === "fold") return `${item.of} stands for ${item.count}`;
  if (item.type === "pin") return `pinned: ${item.of}`;
  return `${item.type}: ${JSON.stringify(item.data)}`;
}

const off: () => void = session.on("item", (item, { source, own, epoch }) =>
  console.log(show(item), source, own, epoch),
);
off();
session.on("state", ({ state, attempt, retryInMs, code, reason }) =>
  console.log(state, attempt, retryInMs, code, reason),
);
session.on("joined", ({ room, epoch, seq, recovered }) => console.log(room, epoch, seq, recovered));
session.on("reset", ({ reason }) => console.log(reason === "lost"));
session.on("remove", ({ epoch, seqs, upTo, after }) => console.log(epoch, seqs?.length, upTo, after));
session.on("gap", ({ from, to, reason }) => console.log(to - from, reason));
session.on("room", ({ online, reactions, slowModeMs, data }) => console.log(online, reactions.like, slowModeMs, data));
session.on("pending", ({ id, releaseInMs }) => console.log(id, releaseInMs));
session.on("auth", ({ you, expiresInMs }) => console.log(you?.id, expiresInMs));
session.on("reconnect", ({ afterMs, url }) => console.log(afterMs, url));
session.on("error", (error) => console.log(error.code, error.count));

try {
  const { id, state, seq, epoch } = await session.send("hello", { mode: "top", color: 0xff0000, streamMs: 5 });
  console.log(id, state, seq, epoch);
} catch (error) {
  if (error instanceof DanmakuError && error.retryable)
    console.log(error.code, error.retryAfterMs, error.shown, error.seq);
}
session.react("like", 3);
session.report(42, "spam");
session.view({ tier: "lite" });
session.pause();
session.resume();
session.join("r2");
await session.auth("token");
const ms: number = await session.ping();
session.align({ clock: () => 5 });
session.align({ startMs: Date.now() });
session.align(null);
const { position, you, room, online, state, latencyMs, thinned } = session;
console.log(ms, position?.seq, you?.guest, room, online, state, latencyMs, thinned);
session.close();

// @ts-expect-error: no such event
session.on("itme", () => {});
// @ts-expect-error: no such tier
connect({ tier: "huge" });
// @ts-expect-error: a text is needed
void session.send(5);
// @ts-expect-error: no such mode
void session.send("hello", { mode: "spiral" });
// @ts-expect-error: the position is the session's to move
session.position = null;
