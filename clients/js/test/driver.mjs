// What the conformance script talks to: commands come as JSON lines, events go out as JSON lines.

import { createInterface } from "node:readline";
import WebSocket from "ws";
import { connect } from "../danmaku.js";

let session;

function tell(event, body) {
  process.stdout.write(`${JSON.stringify({ event, ...body })}\n`);
}

function tokens(list) {
  let given = 0;
  return async () => list[Math.min(given++, list.length - 1)];
}

const COMMANDS = {
  connect({ tokens: list, ...options }) {
    session = connect({ ...options, token: list ? tokens(list) : options.token, WebSocket });
    for (const name of ["state", "reset", "remove", "gap", "auth", "reconnect"]) {
      session.on(name, (body) => tell(name, body));
    }
    for (const name of ["joined", "room", "pending"]) session.on(name, (body) => tell(name, { [name]: body }));
    session.on("item", (item, how) => tell("item", { item, ...how }));
    session.on("error", ({ code, message, retryAfterMs, count }) =>
      tell("error", { code, message, retryAfterMs, count }),
    );
  },
  send({ tag, text, ...options }) {
    session.send(text, options).then(
      (ack) => tell("ack", { tag, ...ack }),
      ({ code, retryable, retryAfterMs, shown, seq }) =>
        tell("refused", { tag, code, retryable, retryAfterMs, shown, seq }),
    );
  },
  join: ({ room }) => session.join(room),
  pause: (paused) => (paused ? session.pause() : session.resume()),
  view: (view) => session.view(view),
  react: ({ kind, count }) => session.react(kind, count),
  report: ({ seq, reason }) => session.report(seq, reason),
  ping({ tag }) {
    session.ping().then(
      () => tell("pong", { tag }),
      ({ code }) => tell("error", { code }),
    );
  },
  position: ({ tag }) => tell("position", { tag, position: session.position }),
  close: () => session.close(),
};

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const [[name, body]] = Object.entries(JSON.parse(line));
  COMMANDS[name](body);
});
lines.on("close", () => process.exit(0));
