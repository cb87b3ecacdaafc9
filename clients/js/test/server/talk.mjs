// Two sessions in a room of their own; one is cut off in the middle. Runs in Node and, as it stands, in a page.

const TEXTS = [
  "hello",
  "<img src=x onerror=alert(1)> & \"quotes\" 'n' \\",
  "你好，弹幕 👩‍👩‍👧‍👦 🇨🇳",
  "שלום é e\u0301 z\u0335a",
];
const ROUNDS = 3;

// Gives a promise of the first thing that is told and fits.
function told(session, name, fits = () => true) {
  return new Promise((resolve) => {
    const off = session.on(name, (...what) => {
      if (!fits(...what)) return;
      off();
      resolve(what);
    });
  });
}

// Sends until it is taken, waiting as long as the server asks.
async function publish(session, text) {
  for (;;) {
    try {
      return await session.send(text);
    } catch (error) {
      if (!(error.retryAfterMs > 0)) throw error;
      await new Promise((resolve) => setTimeout(resolve, error.retryAfterMs));
    }
  }
}

// `cut` ends the connections of `near`, the address by which the first session goes; `far` is never cut.
// Gives what each was shown, as [sequence, text, source], and the acks of all that was sent.
export async function talk({ connect, near, far, room, cut, more = {} }) {
  const options = { room, backoffBaseMs: 20, ...more };
  const sessions = [near, far].map((url) => connect({ ...options, url }));
  const shown = sessions.map((session) => {
    const items = [];
    session.on("item", (item, { source }) => items.push([item.seq, item.text, source]));
    return items;
  });
  const resets = [];
  sessions[0].on("reset", ({ reason }) => resets.push(reason));
  await Promise.all(sessions.map((session) => told(session, "joined")));
  const acks = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [n, text] of TEXTS.entries()) acks.push(await publish(sessions[n % 2], `${text} ${round}`));
    const waiting = told(sessions[0], "state", ({ state }) => state === "waiting");
    const back = told(sessions[0], "joined");
    await cut();
    await waiting;
    // Said while the first is away: it is made up for. Sent by the first meanwhile: it goes out when it is back.
    acks.push(await publish(sessions[1], `meanwhile ${round}`));
    acks.push(await publish(sessions[0], `later ${round}`));
    const [joined] = await back;
    if (!joined.recovered) throw new Error("the position was not recovered");
  }
  const last = Math.max(...acks.map(({ seq }) => seq));
  await Promise.all(
    sessions.map(
      (session, n) => shown[n].some(([seq]) => seq === last) || told(session, "item", ({ seq }) => seq === last),
    ),
  );
  const latencyMs = await sessions[0].ping();
  const positions = sessions.map(({ position }) => position);
  for (const session of sessions) session.close();
  return { shown, acks, resets, positions, latencyMs };
}

// What must hold of it.
export function faults({ shown: [first, second], acks, resets, positions, latencyMs }) {
  const words = (items) => JSON.stringify(items.map(([seq, text]) => [seq, text]));
  const found = [];
  const expected = Array.from({ length: ROUNDS }, (_, round) => [
    ...TEXTS.map((text) => `${text} ${round}`),
    `meanwhile ${round}`,
    `later ${round}`,
  ]).flat();
  if (words(first) !== words(second)) found.push(`not the same was shown: ${words(first)} and ${words(second)}`);
  if (first.map(([, text]) => text).join("\n") !== expected.join("\n"))
    found.push(`not what was sent: ${words(first)}`);
  if (first.map(([seq]) => seq).join() !== acks.map(({ seq }) => seq).join())
    found.push("the acks' numbers are others");
  if (!first.some(([, , source]) => source === "backlog")) found.push("nothing was made up for");
  if (second.some(([, , source]) => source !== "live")) found.push("the second session was not live throughout");
  if (resets.join() !== "snapshot") found.push(`resets: ${resets}`);
  if (JSON.stringify(positions[0]) !== JSON.stringify(positions[1]))
    found.push(`positions: ${JSON.stringify(positions)}`);
  if (!(latencyMs >= 0)) found.push(`latency: ${latencyMs}`);
  return found;
}
