// What is shipped: which files, how large, and whether the types say what the code does.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { test } from "node:test";
import * as client from "../../danmaku.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const GZIP_BYTES_MAX = 12 * 1024;

test("the package holds the module, its types, its description and its licence", () => {
  const [{ files }] = JSON.parse(execFileSync("npm", ["pack", "--dry-run", "--json"], { cwd: root, encoding: "utf8" }));
  assert.deepEqual(files.map(({ path }) => path).sort(), [
    "LICENSE",
    "README.md",
    "danmaku.d.ts",
    "danmaku.js",
    "package.json",
  ]);
});

test("the module is small on the wire, as it is", () => {
  const bytes = gzipSync(readFileSync(`${root}/danmaku.js`), { level: 9 }).length;
  assert.ok(bytes < GZIP_BYTES_MAX, `${bytes} bytes`);
});

test("the module stands alone and is a script that a strict page may run", () => {
  const source = readFileSync(`${root}/danmaku.js`, "utf8");
  assert.doesNotMatch(source, /^\s*import\b|\bimport\(|\brequire\(|\beval\(|new Function|innerHTML/m);
});

test("the module gives what the types promise", () => {
  assert.deepEqual(Object.keys(client).sort(), ["DanmakuError", "connect"]);
  const types = readFileSync(`${root}/danmaku.d.ts`, "utf8");
  const session = client.connect({ url: "ws://127.0.0.1:1/ws", WebSocket: class {} });
  const body = types.match(/interface Session \{(.*?)\n\}/s)[1];
  const promised = [...body.matchAll(/^ {2}(?:readonly )?(\w+)/gm)].map(([, name]) => name);
  assert.ok(promised.length > 15);
  for (const name of promised) assert.ok(name in session, `${name} is promised`);
  session.close();
});

test("a program that uses everything passes the type checker, and each of its mistakes is found", () => {
  const tsc = fileURLToPath(import.meta.resolve("typescript/bin/tsc"));
  const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom"];
  // An expected mistake that is not found is a mistake to tsc.
  const checked = spawnSync(process.execPath, [tsc, ...options, "test/types/usage.ts"], {
    cwd: root,
    encoding: "utf8",
  });
  assert.deepEqual([checked.status, checked.stdout], [0, ""]);
});
