// Starts the real server on loopback and says where it listens.
//
// In come the path of the binary, a configuration and, where it must stay the same, the public port; out goes that
// port. The caller stops the server, or kills it.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const START_MS_MAX = 30_000;
const STOP_MS_MAX = 30_000;

export async function startServer(binary, { workers = 2, config = "", port: wanted = 0 } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "danmaku-"));
  const file = join(folder, "danmaku.toml");
  writeFileSync(file, config);
  const listen = ["--data-dir", join(folder, "data"), "--listen", `127.0.0.1:${wanted}`, "--admin-listen", "127.0.0.1:0", "--workers", String(workers)];
  const child = spawn(binary, ["serve", ...(config ? ["--config", file] : []), ...listen], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (bytes) => (said = (said + bytes).slice(-2000)));
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const end = async (sign) => {
    child.kill(sign);
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS_MAX);
    await ended;
    clearTimeout(timer);
    rmSync(folder, { recursive: true, force: true });
  };
  const [stop, kill] = [() => end("SIGTERM"), () => end("SIGKILL")];
  try {
    const port = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("the server does not listen")), START_MS_MAX);
      ended.then(() => reject(new Error(`the server ended before it listened: ${said}`)));
      child.once("error", reject);
      createInterface({ input: child.stdout }).on("line", (line) => {
        const found = /^listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(line);
        if (found) {
          clearTimeout(timer);
          resolve(Number(found[1]));
        }
      });
    });
    return { port, origin: `http://127.0.0.1:${port}`, said: () => said, stop, kill };
  } catch (error) {
    await stop();
    throw error;
  }
}
