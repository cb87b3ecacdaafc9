// The page: one session, shown three ways: flying (stage.js), listed (chatlog.js), and as a state of
// things (status.js). What others wrote reaches the document as text and never as markup.

import { connect } from "../danmaku.js";
import { Chatlog } from "./chatlog.js";
import { startComposer } from "./composer.js";
import { startLanguage } from "./i18n.js";
import { closePanels, startPanel } from "./panels.js";
import { roomOfAddress, startRoom } from "./room.js";
import { drawScene } from "./scene.js";
import { isBlocked, startSettings, wordsOf } from "./settings.js";
import { Stage } from "./stage.js";
import { Status } from "./status.js";

const byId = (id) => document.getElementById(id);

/** What flies; see stage.js on measuring with it. */
export const stage = new Stage(byId("flight"));

const chatlog = new Chatlog({ list: byId("comments"), newer: byId("newer"), empty: byId("empty"), pinned: byId("pinned") });
const status = new Status({
  state: byId("state"),
  stateText: byId("state-text"),
  online: byId("online"),
  latency: byId("latency"),
  banner: byId("banner"),
  bannerText: byId("banner-text"),
  bannerAction: byId("banner-action"),
  bannerClose: byId("banner-close"),
});
let words = [];
let session = null;

function endpoint() {
  const url = new URL("ws", document.baseURI);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.search = url.hash = "";
  return url.href;
}

function start(room, guest) {
  session = connect({ url: endpoint(), room, guest });
  status.follow(session, () => {
    status.say(null);
    start(session.room, session.you?.guest);
  });
  session.on("reset", ({ reason }) => {
    chatlog.clear();
    stage.clear();
    if (reason === "lost") chatlog.divide("line_lost");
  });
  session.on("item", show);
  session.on("remove", (removal) => {
    chatlog.remove(removal);
    stage.remove(removal);
  });
  session.on("gap", ({ from, to, reason }) => {
    const known = ["slow_consumer", "paused"].includes(reason);
    chatlog.divide(known ? `line_gap_${reason}` : "line_gap", { count: to - from + 1 });
  });
}

function show(item, { source, own, epoch }) {
  chatlog.add(item, { own, epoch });
  // What was said before one came is in the list; only what is said now flies, and what a short break held up.
  if (item.type !== undefined || source === "snapshot") return;
  if (own || !isBlocked(item.text, words)) stage.show(item, { own, epoch });
}

function startTools() {
  for (const id of ["room-toggle", "style-toggle", "settings-toggle"]) startPanel(byId(id));
  const flight = byId("flight-toggle");
  flight.addEventListener("click", () => {
    stage.on = !stage.on;
    flight.setAttribute("aria-pressed", String(stage.on));
  });
  const full = byId("full-toggle");
  full.hidden = !document.fullscreenEnabled;
  full.addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else document.documentElement.requestFullscreen();
  });
}

// Single keys, while nothing is being typed; `/` and Enter go to the field.
const KEYS = { d: "flight-toggle", s: "settings-toggle", f: "full-toggle", "/": "text", Enter: "text" };

function pressed(event) {
  if (event.key === "Escape") {
    if (!closePanels({ focus: true }) && document.activeElement === byId("text")) byId("text").blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const free = document.activeElement === document.body || document.activeElement === byId("comments");
  const target = KEYS[event.key];
  if (!free || target === undefined) return;
  event.preventDefault();
  if (target === "text") byId("text").focus();
  else byId(target).click();
}

drawScene(byId("scene"));
startTools();
document.addEventListener("keydown", pressed);
startSettings(byId("settings"), (settings) => {
  words = wordsOf(settings.block);
  chatlog.filter((text) => isBlocked(text, words));
  stage.apply(settings);
});
startComposer({
  form: byId("send"),
  field: byId("text"),
  counter: byId("counter"),
  notice: byId("notice"),
  panel: byId("style-panel"),
  swatches: byId("swatches"),
  ink: byId("style-color"),
  send: (text, style) => session.send(text, style),
});
startLanguage(byId("language"));

const { room, wrong } = roomOfAddress();
startRoom({
  form: byId("room-form"),
  input: byId("room-name"),
  label: byId("room"),
  moved: (name) => session.join(name),
  refused: (name) => status.say({ key: "room_wrong", fill: { room: name }, kind: "bad" }),
});
if (wrong !== null) status.say({ key: "room_wrong", fill: { room: wrong }, kind: "bad" });
else if (!Stage.supported) status.say({ key: "banner_no_flight", kind: "warning" });
start(room);
