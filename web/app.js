// The plain page: joins the room of ?room=, shows what is said, says what is typed, comes back when
// the connection breaks. Speaks danmaku.v1.json (docs/protocol.md). Whatever others wrote reaches the
// document as text and never as markup.
"use strict";

const COMMENTS_SHOWN_MAX = 200;
const LANES = 12;
const FLIGHT_MS = 8000;
const FIXED_MS = 5000;
const FLYING_MAX = 120;
const BACKOFF_MS_MIN = 500;
const BACKOFF_MS_MAX = 30000;
// Where coming back at once would only be refused again: rules broken, tokens, bans, closed rooms.
const FINAL_CODES = new Set([1002, 1003, 1007, 1008, 1009, 4001, 4003, 4004, 4009]);

const byId = (id) => document.getElementById(id);
const room = new URLSearchParams(location.search).get("room") || "lobby";
// Ids are a random prefix and a counter, so that two tabs never choose the same.
const idPrefix = Array.from(crypto.getRandomValues(new Uint8Array(6)), (b) => b.toString(36)).join("");

let socket = null;
let idCount = 0;
let failures = 0;
let laneNext = 0;
// The last entry seen; null until the first join is answered.
let position = null;
// Who the server takes this page for, and a guest's proof of it for the next connection.
let ownId = null;
let guest = null;
// Publishes that no answer has come for, by id: sent again after a reconnect, and answered once.
const unanswered = new Map();

function connect() {
  showState("connecting", "connecting");
  const url = new URL("ws", location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  url.searchParams.set("room", room);
  if (position) url.searchParams.set("since", `${position.epoch}:${position.seq}`);
  const identity = guest ? [`danmaku.auth.${base64url(guest)}`] : [];
  socket = new WebSocket(url, ["danmaku.v1.json", ...identity]);
  socket.onmessage = ({ data }) => {
    for (const [kind, body] of Object.entries(JSON.parse(data))) handlers[kind]?.(body);
  };
  socket.onclose = ({ code, reason }) => {
    if (FINAL_CODES.has(code)) showState("refused", `closed: ${reason || code}`);
    else reconnectAfter(backoff());
  };
}

function base64url(text) {
  const binary = String.fromCharCode(...new TextEncoder().encode(text));
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// Full jitter: everyone who lost the same server comes back at a moment of his own.
function backoff() {
  const ceiling = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** failures);
  failures += 1;
  return Math.random() * ceiling;
}

function reconnectAfter(ms) {
  showState("waiting", `reconnecting in ${(ms / 1000).toFixed(1)} s`);
  setTimeout(connect, ms);
}

const handlers = {
  joined({ epoch, seq = 0, online = 0, recovered = false, you = {} }) {
    failures = 0;
    if (!recovered) position = { epoch, seq };
    byId("online").textContent = online;
    showState("open", "connected");
    // As somebody else the same id would be another comment, and it may have been taken already.
    if (ownId !== null && ownId !== you.id && unanswered.size > 0) {
      unanswered.clear();
      byId("notice").textContent = "connection lost: see whether your comment arrived";
    }
    ownId = you.id;
    guest = you.guest ?? guest;
    for (const [id, text] of unanswered) command("send", { id, text });
  },
  snapshot({ epoch, seq = 0, items = [] }) {
    position = { epoch, seq };
    byId("comments").replaceChildren();
    items.forEach((item) => list(item));
  },
  batch({ from, to, items = [] }) {
    // A hole that no gap announced: the server owes it, and a resume brings it.
    if (from > position.seq + 1) return socket.close(4000, "hole");
    // A range that is known already may still carry what only this viewer sees.
    const known = position.seq;
    position.seq = Math.max(known, to);
    items.filter(({ seq }) => seq > known || !isListed(seq)).forEach(show);
  },
  gap({ epoch, to }) {
    position = { epoch: epoch ?? position.epoch, seq: to };
  },
  epoch({ epoch, seq = 0, prev }) {
    if (prev) removeWhere((shown) => shown > (prev.seq ?? 0));
    position = { epoch, seq };
  },
  room({ online = 0 }) {
    byId("online").textContent = online;
  },
  ack({ id, state }) {
    unanswered.delete(id);
    byId("notice").textContent = state === "held" ? "waits for a moderator" : "";
  },
  error({ id, code, message, retryAfterMs }) {
    const text = unanswered.get(id);
    unanswered.delete(id);
    const wait = retryAfterMs ? `, try again in ${(retryAfterMs / 1000).toFixed(1)} s` : "";
    byId("notice").textContent = (message || code) + wait;
    // What was refused is given back to be changed, unless something else is being typed.
    if (text !== undefined && byId("text").value === "") byId("text").value = text;
  },
  reconnect({ afterMs = 0 }) {
    socket.onclose = null;
    socket.close(1000);
    reconnectAfter(afterMs);
  },
};

function show(item) {
  if (item.type === undefined) {
    list(item);
    fly(item);
  } else if (item.type === "retract") {
    const seqs = new Set(item.seqs);
    removeWhere((shown) => seqs.has(shown));
  } else if (item.type === "clear") {
    removeWhere((shown) => shown <= item.upTo);
  }
}

function element(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

function list({ seq, type, user, text }) {
  if (type !== undefined) return;
  const line = element("li", "", "");
  line.dataset.seq = seq;
  line.append(element("span", "user", user?.name || user?.id || ""), element("span", "text", text));
  const comments = byId("comments");
  const following = comments.scrollTop + comments.clientHeight >= comments.scrollHeight - 8;
  comments.append(line);
  while (comments.childElementCount > COMMENTS_SHOWN_MAX) comments.firstElementChild.remove();
  if (following) comments.scrollTop = comments.scrollHeight;
}

function fly({ seq, text, mode = "scroll", color = 0xffffff, size = 25 }) {
  const stage = byId("stage");
  // A hidden tab and a full stage skip the flight; the list has it all.
  if (document.hidden || stage.childElementCount >= FLYING_MAX) return;
  const flying = element("span", `fly ${mode}`, text);
  flying.dataset.seq = seq;
  flying.style.color = `#${color.toString(16).padStart(6, "0")}`;
  flying.style.fontSize = `${size}px`;
  const offset = `${(laneNext++ % LANES) * (100 / LANES)}%`;
  flying.style[mode === "bottom" ? "bottom" : "top"] = offset;
  stage.append(flying);
  const moving = mode === "scroll";
  const way = `translateX(-${stage.clientWidth + flying.offsetWidth}px)`;
  const frames = moving ? { transform: ["none", way] } : { opacity: [1, 1] };
  flying.animate(frames, moving ? FLIGHT_MS : FIXED_MS).onfinish = () => flying.remove();
}

function isListed(seq) {
  return byId("comments").querySelector(`[data-seq="${Number(seq)}"]`) !== null;
}

function removeWhere(condition) {
  for (const shown of document.querySelectorAll("[data-seq]")) {
    if (condition(Number(shown.dataset.seq))) shown.remove();
  }
}

function command(name, body) {
  socket.send(JSON.stringify({ [name]: body }));
}

function showState(state, text) {
  byId("state").dataset.state = state;
  byId("state").textContent = text;
}

byId("send").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("text").value;
  const id = `${idPrefix}-${(idCount += 1)}`;
  byId("text").value = "";
  byId("notice").textContent = "";
  unanswered.set(id, text);
  // While the connection is away, the next join sends what is unanswered.
  if (byId("state").dataset.state === "open") command("send", { id, text });
});

byId("room").textContent = `room ${room}`;
connect();
