#!/usr/bin/env python3
"""Plays a server by script and looks at what a client library makes of it.

In come the command of a driver (a small program around the library; README.md tells what it reads and
writes) and names of scenarios, all by default. The last line is `N passed, N failed`; the exit code is
1 when anything failed.
"""

import argparse
import asyncio
import json
import pathlib
import shlex
import sys

from playing import Failure, Stage

SCENARIOS = pathlib.Path(__file__).resolve().parent / "scenarios"


def load(names):
    """Gives (name, why, steps, variables) of the wanted scenarios; one with cases is one for each of them."""
    found = []
    for file in sorted(SCENARIOS.glob("*.json")):
        scenario = json.loads(file.read_text(encoding="utf-8"))
        if scenario["name"] != file.stem:
            raise SystemExit(f"{file.name}: its name is {scenario['name']!r}, it should be {file.stem!r}")
        for case in scenario.get("cases", [{}]):
            label = ", ".join(str(value) for value in case.values())
            name = f"{file.stem} ({label})" if case else file.stem
            if not names or file.stem in names:
                found.append((name, scenario["why"], scenario["steps"], case))
    missing = set(names) - {name.split(" (")[0] for name, *_ in found}
    if missing:
        raise SystemExit(f"there is no scenario {min(missing)!r}; --list names them")
    return found


async def play(driver, scenario, verbose):
    """Gives whether a scenario passed, and says why if it did not."""
    name, why, steps, variables = scenario
    async with Stage(driver, variables) as stage:
        try:
            for number, step in enumerate(steps, 1):
                stage.note(f"step {number}: {json.dumps(step, ensure_ascii=False)}")
                await stage.play(step)
            await stage.play({"end": True})
        except Failure as failure:
            print(f"FAIL {name}: {failure}\n  why it matters: {why}")
            print("".join(f"    {line}\n" for line in stage.notes), end="")
            return False
        print(f"ok   {name}", flush=True)
        if verbose:
            print("".join(f"    {line}\n" for line in stage.notes), end="", flush=True)
        return True


async def play_all(driver, scenarios, verbose):
    failed = 0
    for scenario in scenarios:
        failed += not await play(driver, scenario, verbose)
    print(f"{len(scenarios) - failed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", help="the driver's command line")
    parser.add_argument("--list", action="store_true", help="only name the scenarios")
    parser.add_argument("--verbose", action="store_true", help="show what was said also where it passed")
    parser.add_argument("scenarios", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    scenarios = load(arguments.scenarios)
    if arguments.list:
        for name, why, *_ in scenarios:
            print(f"{name}: {why}")
        return 0
    if not arguments.driver:
        parser.error("--driver is needed: the command line of a driver")
    return asyncio.run(play_all(shlex.split(arguments.driver), scenarios, arguments.verbose))


if __name__ == "__main__":
    sys.exit(main())
