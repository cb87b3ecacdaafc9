// The page as people use it, in Chromium, against the real server. Screenshots go to the folder of
// DANMAKU_SHOTS, else to a temporary one; with DANMAKU_PAGE_CASE only the cases whose name holds it run.

import { mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { Battery, argument, equal } from "./battery.mjs";
import { FLAGS } from "./chromium.mjs";
import { JSON_CODEC } from "./codec.mjs";
import { MODULE_CASES } from "./page_modules.mjs";
import { TOLD_CASES } from "./page_told.mjs";
import { Mortal, Viewer, Wire } from "./page_world.mjs";
import { Session, freshRoom } from "./session.mjs";

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };

async function twoPagesSeeEachOther(browser, server) {
  const address = `${server.origin}/?room=${freshRoom("pair")}`;
  const [ann, bob] = [await Viewer.open(browser, address), await Viewer.open(browser, address)];
  await ann.say("hello from Ann");
  for (const viewer of [ann, bob]) {
    await viewer.sees("hello from Ann");
    await viewer.flies(1);
  }
  await bob.say("你好,Ann");
  for (const viewer of [ann, bob]) await viewer.sees("你好,Ann");
  equal(await ann.page.locator("#comments .own .text").allTextContents(), ["hello from Ann"], "Ann's own");
  equal(await bob.page.locator("#comments .own .text").allTextContents(), ["你好,Ann"], "Bob's own");
  await ann.page.waitForFunction(() => document.querySelector("#online").textContent === "2");
  await ann.page.waitForFunction(() => /^[\d.]+ ms$/.test(document.querySelector("#latency").textContent));
  await ann.close();
  await bob.close();
}

async function theStyleGoesOutWithTheComment(browser, server) {
  const room = freshRoom("style");
  const viewer = await Viewer.open(browser, `${server.origin}/?room=${room}`);
  const session = await Session.open(server, room, JSON_CODEC);
  await viewer.page.click("#style-toggle");
  await viewer.page.locator("#style-panel input[value=top]").check({ force: true });
  await viewer.page.locator("#style-panel input[value='36']").check({ force: true });
  await viewer.page.locator("#style-panel input[value='#fe4f5e']").check({ force: true });
  await viewer.page.keyboard.press("Escape");
  await viewer.say("in red");
  const first = await session.shown(1);
  equal([first.mode, first.size, first.color], ["top", 36, 0xfe4f5e], "style of the comment");
  await viewer.page.reload();
  await viewer.opened();
  await viewer.page.click("#style-toggle");
  await viewer.page.locator("input[name=any]").fill("#123456");
  await viewer.page.keyboard.press("Escape");
  await viewer.say("in a colour of my own");
  const second = await session.shown(2);
  equal([second.mode, second.size, second.color], ["top", 36, 0x123456], "style after a reload");
  await session.close();
  await viewer.close();
}

async function aRestartIsSaidAndItGoesOn(browser, server) {
  const mortal = await Mortal.born(server.binary);
  const viewer = await Viewer.open(browser, `${mortal.origin}/?room=restart`, { breaks: true });
  await viewer.say("before the restart");
  await viewer.sees("before the restart");
  await mortal.kill();
  await viewer.page.locator("#state[data-state=waiting]").waitFor();
  await mortal.start();
  await viewer.opened();
  await viewer.page.locator("#banner", { hasText: await viewer.line("banner_lost") }).waitFor();
  equal(await viewer.texts(), [], "what the server does not know any more is gone");
  await viewer.say("after the restart");
  await viewer.sees("after the restart");
  equal(await viewer.page.locator("#banner").isVisible(), true, "the line stays until it is dismissed");
  await viewer.page.click("#banner-close");
  equal(await viewer.page.locator("#banner").isVisible(), false, "the line is dismissed");
  await viewer.close();
  await mortal.kill();
}

async function aCutLeavesNoHole(browser, server) {
  const wire = await Wire.to(server.port);
  const room = freshRoom("cut");
  const viewer = await Viewer.open(browser, `${wire.origin}/?room=${room}`, { breaks: true });
  const session = await Session.open(server, room, JSON_CODEC);
  const wanted = [];
  for (const phase of ["before", "during", "after"]) {
    if (phase === "during") {
      wire.cut();
      await viewer.page.locator("#state[data-state=waiting]").waitFor();
    } else if (phase === "after") {
      wire.join();
      await viewer.opened();
    }
    for (let n = 0; n < 5; n += 1) {
      wanted.push(`${phase} ${n}`);
      await session.publish(`${phase} ${n}`);
    }
    // Said while the wire is cut; it arrives once, when the wire is whole again.
    if (phase === "during") await viewer.say("mine, during");
    else await viewer.sees(wanted.at(-1));
  }
  await viewer.sees("mine, during");
  const texts = await viewer.texts();
  equal(texts.filter((text) => text !== "mine, during"), wanted, "the list");
  equal(texts.filter((text) => text === "mine, during").length, 1, "times that the own comment appears");
  equal(await viewer.page.locator("#banner", { hasText: await viewer.line("banner_lost") }).count(), 0, "loss is said");
  await session.close();
  await viewer.close();
  await wire.close();
}

const HOSTILE = [
  '<img src=x onerror="alert(1)">',
  "<script>alert(1)</script>",
  "</span><b onclick=alert(1)>bold</b>",
  "javascript:alert(1)",
  "\u202egnitirw ot desoppo\u202c tail",
  "z\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308\u0309\u030a\u030b\u030c\u030d\u030e\u030f".repeat(6),
  "😀".repeat(100),
  "w".repeat(100),
  "مرحبا <b>",
  "${7*7} {{7*7}} %00 &lt;b&gt;",
];

async function hostileTextsStayTexts(browser, server) {
  const room = freshRoom("hostile");
  const session = await Session.open(server, room, JSON_CODEC);
  const phone = await Viewer.open(browser, `${server.origin}/?room=${room}`, PHONE);
  const shown = [];
  for (const text of HOSTILE) {
    const { kind } = await session.fate(`h-${HOSTILE.indexOf(text)}`, text);
    // What the server refuses cannot do harm; most it takes, and takes literally.
    if (kind === "ack") shown.push(text);
  }
  equal(shown.length >= HOSTILE.length - 2, true, `the server took ${shown.length} of them`);
  await phone.sees(shown.at(-1));
  // A second page gets them from the snapshot.
  const late = await Viewer.open(browser, `${server.origin}/?room=${room}`);
  await late.sees(shown.at(-1));
  for (const viewer of [phone, late]) {
    equal(await viewer.texts(), shown, "texts");
    const made = viewer.page.locator("#comments .text *, #comments script, #stage img, #stage script");
    equal(await made.count(), 0, "elements made of texts");
    await noSidewaysScroll(viewer);
    // A text that towers over its line, or runs against it, stays in its own line.
    const outside = await viewer.page.evaluate(() => {
      const list = document.querySelector("#comments").getBoundingClientRect();
      const lines = [...document.querySelectorAll("#comments .line")];
      return lines.filter((line) => line.getBoundingClientRect().right > list.right + 1).length;
    });
    equal(outside, 0, "lines wider than the list");
  }
  await phone.flies(1);
  await session.close();
  await phone.close();
  await late.close();
}

async function noSidewaysScroll(viewer) {
  const { wide, has } = await viewer.page.evaluate(() => ({
    wide: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth),
    has: document.documentElement.clientWidth,
  }));
  equal(wide <= has, true, `the page is ${wide} px wide where ${has} are`);
}

async function theLanguageSwitchesAndIsKept(browser, server) {
  const viewer = await Viewer.open(browser, `${server.origin}/?room=${freshRoom("tongue")}`);
  const { page } = viewer;
  equal(await page.textContent("#send-button"), "Send", "button in English");
  await page.click("#language");
  equal(await page.textContent("#send-button"), "发送", "button in Chinese");
  equal(await page.getAttribute("html", "lang"), "zh-CN", "language of the document");
  await page.reload();
  await viewer.opened();
  equal(await page.textContent("#send-button"), "发送", "button after a reload");
  equal(await page.textContent("#state-text"), "已连接", "state in Chinese");
  const bare = await page.evaluate(async () => {
    const { EN } = await import("/js/texts_en.js");
    const marked = [...document.querySelectorAll("[data-text]")];
    return marked.map(({ dataset, textContent }) => [dataset.text, textContent]).filter(([key, said]) => said === EN[key]);
  });
  equal(bare, [], "texts left in English");
  await viewer.close();
  const chinese = await Viewer.open(browser, `${server.origin}/?room=${freshRoom("tongue")}`, { locale: "zh-CN" });
  equal(await chinese.page.textContent("#send-button"), "发送", "button where the browser speaks Chinese");
  await chinese.close();
}

async function settingsWorkAndAreKept(browser, server) {
  const room = freshRoom("settings");
  const viewer = await Viewer.open(browser, `${server.origin}/?room=${room}`);
  const { page } = viewer;
  const session = await Session.open(server, room, JSON_CODEC);
  await session.publish("a SPOILER for you");
  await session.publish("harmless");
  await viewer.sees("harmless");
  await page.click("#settings-toggle");
  await page.locator("#settings input[value=half]").check({ force: true });
  await page.locator("#settings input[value=few]").check({ force: true });
  await page.locator("#settings input[name=opacity]").fill("50");
  await page.locator("#settings input[name=speed]").fill("150");
  await page.locator("#settings textarea").fill("spoiler");
  const check = async (when) => {
    const flight = await page.locator("#flight").evaluate(({ offsetHeight, parentElement, style }) => {
      return [Math.round((100 * offsetHeight) / parentElement.offsetHeight), Number(style.opacity)];
    });
    equal(flight, [50, 0.5], `area and opacity ${when}`);
    equal(await page.locator("#comments .line:visible .text").allTextContents(), ["harmless"], `comments seen ${when}`);
  };
  await check("at once");
  await page.reload();
  await viewer.opened();
  await viewer.sees("harmless");
  await check("after a reload");
  await page.click("#settings-toggle");
  equal(await page.locator("#settings input[name=speed]").inputValue(), "150", "speed");
  equal(await page.locator("#settings input[name=density]:checked").inputValue(), "few", "density");
  await page.click("#settings-reset");
  equal(await page.locator("#comments .line:visible .text").count(), 2, "comments seen after the reset");
  await session.close();
  await viewer.close();
}

async function theRoomChangesAndTheWayBackWorks(browser, server) {
  const [first, second] = [freshRoom("here"), freshRoom("there")];
  const viewer = await Viewer.open(browser, `${server.origin}/?room=${first}`);
  const { page } = viewer;
  await viewer.say("said here");
  await viewer.sees("said here");
  await page.click("#room-toggle");
  await page.fill("#room-name", "no room!");
  await page.press("#room-name", "Enter");
  await page.locator("#banner", { hasText: "is no room name" }).waitFor();
  await page.fill("#room-name", second);
  await page.press("#room-name", "Enter");
  await page.waitForFunction(() => document.querySelectorAll("#comments .text").length === 0);
  equal(new URL(page.url()).searchParams.get("room"), second, "address");
  await viewer.say("said there");
  await viewer.sees("said there");
  await page.goBack();
  await viewer.sees("said here");
  equal(await viewer.texts(), ["said here"], "the first room again");
  equal(await page.textContent("#room"), first, "name shown");
  await viewer.close();
}

async function theListStandsStillWhileReadAndStaysBounded(browser, server) {
  const viewer = await Viewer.open(browser, `${server.origin}/?room=${freshRoom("list")}`);
  const { page } = viewer;
  // A list of its own in the page's place, so that no server has to say so much.
  await page.evaluate(async () => {
    const { Chatlog } = await import("/js/chatlog.js");
    const [list, newer, empty, pinned] = ["comments", "newer", "empty", "pinned"].map((id) => document.getElementById(id));
    const log = new Chatlog({ list, newer, empty, pinned });
    let seq = 0;
    window.add = (count) => {
      for (const end = seq + count; seq < end; ) {
        seq += 1;
        log.add({ seq, user: { id: "u" }, text: `line ${seq}`, color: 0xffffff, at: 1 }, { epoch: "e" });
      }
    };
  });
  const count = () => page.locator("#comments li").count();
  await page.evaluate(() => window.add(1_000));
  equal(await count(), 300, "lines kept");
  const top = await page.locator("#comments").evaluate((list) => {
    list.scrollTop = 400;
    return new Promise((resolve) => list.addEventListener("scroll", () => resolve(list.scrollTop), { once: true }));
  });
  await page.evaluate(() => window.add(500));
  equal(await page.locator("#comments").evaluate((list) => list.scrollTop), top, "place while reading");
  equal(await page.textContent("#newer"), "500 new ↓", "what waits");
  await page.click("#newer");
  equal(await count(), 300, "lines kept after coming back");
  equal(await page.locator("#comments li").last().locator(".text").textContent(), "line 1500", "the last line");
  await viewer.close();
}

async function theKeyboardIsEnough(browser, server) {
  const viewer = await Viewer.open(browser, `${server.origin}/?room=${freshRoom("keys")}`);
  const { page } = viewer;
  const focused = () => page.evaluate(() => document.activeElement.id);
  await page.keyboard.press("/");
  equal(await focused(), "text", "after /");
  await page.keyboard.type("typed d and s");
  await page.keyboard.press("Enter");
  await viewer.sees("typed d and s");
  await page.keyboard.press("Escape");
  await page.keyboard.press("s");
  equal(await page.isVisible("#settings"), true, "the panel opens");
  await page.keyboard.press("Escape");
  equal([await page.isVisible("#settings"), await focused()], [false, "settings-toggle"], "the panel closes and gives the focus back");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("d");
  equal(await page.getAttribute("#flight-toggle", "aria-pressed"), "false", "the flight is off");
  const nameless = await page.evaluate(() => {
    const named = (one) => one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length;
    return [...document.querySelectorAll("button, input, textarea")].filter((one) => !named(one)).map(({ outerHTML }) => outerHTML);
  });
  equal(nameless, [], "controls without a name");
  await viewer.close();
}

async function aPhoneHasRoomForEverything(browser, server, shots) {
  const room = freshRoom("phone");
  const phone = await Viewer.open(browser, `${server.origin}/?room=${room}`, PHONE);
  const desk = await Viewer.open(browser, `${server.origin}/?room=${room}`);
  for (const text of ["前方高能", "hello from the desk", "这个夜景绝了"]) await desk.say(text);
  await phone.say("from the phone");
  for (const viewer of [phone, desk]) {
    await viewer.sees("from the phone");
    await viewer.flies(4);
    await noSidewaysScroll(viewer);
    for (const id of ["stage", "text", "send-button", "comments", "online", "state", "latency", "transport", "language", "room-toggle"]) {
      const seen = await viewer.page.locator(`#${id}`).evaluate((one) => {
        const { top, left, bottom, right, width } = one.getBoundingClientRect();
        return width > 0 && top >= 0 && left >= 0 && bottom <= innerHeight + 1 && right <= innerWidth + 1;
      });
      equal(seen, true, `#${id} is on the screen`);
    }
  }
  // Far enough in for whoever looks at the pictures.
  for (const viewer of [phone, desk]) await viewer.draws(40);
  await phone.page.screenshot({ path: join(shots, "phone.png") });
  await desk.page.screenshot({ path: join(shots, "desk.png") });
  for (const panel of ["settings", "style"]) {
    await phone.page.click(`#${panel}-toggle`);
    await noSidewaysScroll(phone);
    await phone.page.screenshot({ path: join(shots, `phone-${panel}.png`) });
  }
  await phone.close();
  await desk.close();
}

async function whoWantsNoMotionGetsNone(browser, server) {
  const viewer = await Viewer.open(browser, `${server.origin}/?room=${freshRoom("still")}`, { reducedMotion: "reduce" });
  const running = () => document.getAnimations().filter(({ playState }) => playState === "running").length;
  const moving = await viewer.page.evaluate(running);
  equal(moving, 0, "animations that run");
  await viewer.say("standing");
  await viewer.flies(1);
  await viewer.close();
  const other = await Viewer.open(browser, `${server.origin}/?room=${freshRoom("still")}`);
  const drifting = await other.page.evaluate(running);
  equal(drifting >= 4, true, `strips that drift for everybody else: ${drifting}`);
  await other.close();
}

const CASES = [
  ["two pages see each other's comments", twoPagesSeeEachOther],
  ["position, size and colour go out with the comment and are kept", theStyleGoesOutWithTheComment],
  ["a restart is said in one line and it goes on", aRestartIsSaidAndItGoesOn],
  ["a cut connection leaves no hole", aCutLeavesNoHole],
  ["hostile texts stay texts", hostileTextsStayTexts],
  ["the language switches and is kept", theLanguageSwitchesAndIsKept],
  ["settings work and are kept", settingsWorkAndAreKept],
  ["the room changes and the way back works", theRoomChangesAndTheWayBackWorks],
  ["the list stands still while it is read and stays bounded", theListStandsStillWhileReadAndStaysBounded],
  ["the keyboard is enough", theKeyboardIsEnough],
  ["a phone has room for everything", aPhoneHasRoomForEverything],
  ["who wants no motion gets none", whoWantsNoMotionGetsNone],
  ...TOLD_CASES,
];

const battery = new Battery();
for (const [name, run] of MODULE_CASES) await battery.check(name, async () => run());
const shots = process.env.DANMAKU_SHOTS ?? mkdtempSync(join(tmpdir(), "danmaku-shots-"));
mkdirSync(shots, { recursive: true });
const binary = argument("server");
const only = process.env.DANMAKU_PAGE_CASE;
const server = Object.assign(await Mortal.born(binary), { binary });
const browser = await chromium.launch({ executablePath: argument("chromium"), args: FLAGS });
try {
  for (const [name, run] of CASES.filter(([name]) => !only || name.includes(only))) {
    await battery.check(name, () => run(browser, server, shots));
  }
} finally {
  await browser.close();
  await server.kill();
}
console.log(`screenshots are in ${shots}`);
battery.finish();
