// The page against a server that is told what to say: what a real one does only on staff's orders or on bad days.

import { equal } from "./battery.mjs";
import { Viewer } from "./page_world.mjs";

const USER = { id: "u1", name: "Ann" };
const comment = (seq, text, more = {}) => ({ seq, user: USER, text, at: 1_700_000_000_000, ...more });

/** A viewer whose server is `tell`: a function that gets the route of each connection, once it is made. */
async function toldViewer(browser, server, tell) {
  const routes = [];
  const prepare = (page) =>
    page.routeWebSocket(/\/ws\?/, (route) => {
      const say = (message) => route.send(JSON.stringify(message));
      routes.push({ route, say });
      tell({ route, say, attempt: routes.length });
    });
  const viewer = await Viewer.open(browser, `${server.origin}/?room=told`, { prepare, breaks: true });
  return { viewer, say: (message) => routes.at(-1).say(message), close: (options) => routes.at(-1).route.close(options) };
}

function welcome({ say }) {
  say({ joined: { room: "told", epoch: "1-a", seq: 0, online: 1234, you: { id: "me" } } });
  say({ snapshot: { epoch: "1-a", seq: 0, items: [], room: { online: 1234 } } });
}

async function moderationShows(browser, server) {
  const { viewer, say } = await toldViewer(browser, server, welcome);
  const { page } = viewer;
  equal(await page.locator("#online").textContent(), "1,234", "count of people");
  const items = [1, 2, 3, 4].map((seq) => comment(seq, `comment ${seq}`, seq === 3 ? { user: { ...USER, role: "vip" } } : {}));
  say({ batch: { from: 1, to: 4, items } });
  await viewer.sees("comment 4");
  await viewer.flies(4);
  equal(await page.locator(".role.vip").count(), 1, "marks of a VIP");
  const events = [
    { seq: 5, type: "fold", of: 4, count: 128, at: 1 },
    { seq: 6, type: "pin", of: 2, at: 1 },
    { seq: 7, type: "gift", user: USER, data: { gift: "rose", count: 9 }, at: 1 },
  ];
  say({ batch: { from: 5, to: 7, items: events } });
  await page.locator("#comments .event", { hasText: "Ann sent rose × 9" }).waitFor();
  equal(await page.locator("#comments .times").textContent(), "×128", "fold");
  equal(await page.locator("#pinned").textContent(), "Pinned: comment 2", "pin");
  say({ batch: { from: 8, to: 8, items: [{ seq: 8, type: "retract", seqs: [4] }] } });
  await page.locator("#comments .text", { hasText: "comment 4" }).waitFor({ state: "detached" });
  await page.waitForFunction(async () => (await (await import("/js/main.js")).stage.count()).flying === 3);
  say({ gap: { from: 9, to: 60, reason: "slow_consumer" } });
  await page.locator("#comments .divider", { hasText: "52 comments left out: the connection was too slow" }).waitFor();
  say({ batch: { from: 61, to: 61, items: [{ seq: 61, type: "clear", upTo: 3 }] } });
  await page.waitForFunction(() => document.querySelectorAll("#comments .text").length === 0);
  say({ batch: { from: 62, to: 63, items: [comment(62, "kept"), comment(63, "not kept")] } });
  await viewer.sees("not kept");
  say({ epoch: { epoch: "2-b", seq: 5000, prev: { epoch: "1-a", seq: 62 } } });
  await page.locator("#comments .text", { hasText: "not kept" }).waitFor({ state: "detached" });
  equal(await viewer.texts(), ["kept"], "what is left after the owner changed");
  await viewer.close();
}

async function aFinalCloseIsSaidAndCanBeTriedAgain(browser, server) {
  const { viewer, close } = await toldViewer(browser, server, welcome);
  const { page } = viewer;
  await close({ code: 4003, reason: "banned" });
  await page.locator("#banner", { hasText: "you are banned from this room" }).waitFor();
  equal(await page.locator("#state").getAttribute("data-state"), "closed", "state");
  await page.click("#banner-action");
  await viewer.opened();
  equal(await page.locator("#banner").isVisible(), false, "the line is gone");
  await viewer.close();
}

async function aRefusalKeepsTheTextAndCountsDown(browser, server) {
  let lastId = null;
  const { viewer, say } = await toldViewer(browser, server, (connection) => {
    welcome(connection);
    connection.route.onMessage((data) => {
      const { send } = JSON.parse(data);
      if (!send) return;
      lastId = send.id;
      if (send.text === "fine") connection.say({ ack: { id: send.id, seq: 1 } });
      else if (send.text === "slow") connection.say({ error: { id: send.id, code: "slow_mode", message: "x", retryAfterMs: 2_000 } });
      else if (send.text === "held") connection.say({ ack: { id: send.id, state: "held" } });
      else if (send.text === "odd") connection.say({ error: { id: send.id, code: "of_tomorrow", message: "x" } });
    });
  });
  const { page } = viewer;
  const notice = page.locator("#notice-text");
  await viewer.say("slow");
  await notice.filter({ hasText: /^The room is in slow mode\. Try again in \d\.\d s\.$/ }).waitFor();
  equal(await page.inputValue("#text"), "slow", "the text is back");
  await page.click("#language");
  await notice.filter({ hasText: /^房间处于慢速模式。/ }).waitFor();
  await notice.filter({ hasText: "现在可以发送了。" }).waitFor();
  await page.click("#language");
  await viewer.say("held");
  await notice.filter({ hasText: "waits for a moderator" }).waitFor();
  await viewer.say("odd");
  await notice.filter({ hasText: "The server refused the comment (of_tomorrow)." }).waitFor();
  // Something else is being typed when the refusal comes: the text is offered, not forced.
  await viewer.say("never answered");
  await notice.filter({ hasText: "Sending" }).waitFor();
  await page.fill("#text", "the next one");
  say({ error: { id: lastId, code: "filtered_word", message: "x" } });
  await page.locator("#notice-restore").waitFor();
  equal(await page.inputValue("#text"), "the next one", "what is being typed stays");
  await page.click("#notice-restore");
  equal(await page.inputValue("#text"), "never answered", "the text comes back when asked for");
  equal(await notice.textContent(), "Not sent: “the next one”.", "what was being typed is offered in its place");
  await page.fill("#text", "");
  await page.click("#notice-restore");
  equal(await page.inputValue("#text"), "the next one", "and comes back too");
  await viewer.say("fine");
  await page.locator("#notice").waitFor({ state: "hidden" });
  await viewer.close();
}

/** The cases of this file: names and functions of a browser and a server. */
export const TOLD_CASES = [
  ["retractions, folds, pins, gifts, gaps and lost entries show", moderationShows],
  ["a final close is said and can be tried again", aFinalCloseIsSaidAndCanBeTriedAgain],
  ["a refusal keeps the text and counts down", aRefusalKeepsTheTextAndCountsDown],
];
