// Runs cases one after the other and counts them; the last line is `N passed, N failed`.

import { isDeepStrictEqual } from "node:util";

// Far beyond what anything here takes on a busy machine; only a hang reaches it.
const CASE_MS_MAX = 180_000;

export class Battery {
  passed = 0;
  failed = 0;

  async check(name, run) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done within ${CASE_MS_MAX} ms`)), CASE_MS_MAX);
    });
    try {
      await Promise.race([run(), late]);
      this.passed += 1;
      console.log(`ok   ${name}`);
    } catch (error) {
      this.failed += 1;
      console.log(`FAIL ${name}: ${error?.stack ?? error}`);
    } finally {
      clearTimeout(timer);
    }
  }

  finish() {
    console.log(`${this.passed} passed, ${this.failed} failed`);
    process.exitCode = this.failed ? 1 : 0;
  }
}

export function equal(found, wanted, what = "value") {
  if (!isDeepStrictEqual(found, wanted)) {
    throw new Error(`${what}: ${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`);
  }
}

// The value of `--name` on the command line.
export function argument(name) {
  const at = process.argv.indexOf(`--${name}`);
  const value = at < 0 ? undefined : process.argv[at + 1];
  if (value === undefined) throw new Error(`--${name} VALUE is missing`);
  return value;
}
