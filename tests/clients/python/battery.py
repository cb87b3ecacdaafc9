"""Runs cases one after the other and counts them.

A case is an async function whose name is a sentence. The last line printed is `N passed, N failed`.
"""

import argparse
import asyncio
import sys
import traceback

from server import Server

# Far beyond what anything here takes on a busy machine; only a hang reaches it.
CASE_SECONDS_MAX = 180


async def run(cases, server):
    """Runs `(name, async function of the server)` pairs; gives how many failed."""
    passed = failed = 0
    for name, case in cases:
        try:
            async with asyncio.timeout(CASE_SECONDS_MAX):
                await case(server)
        except Exception as error:  # noqa: BLE001 - a case may fail in any way, and the next still runs
            failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"FAIL {name}: {type(error).__name__}: {error} ({where.filename}:{where.lineno})")
        else:
            passed += 1
            print(f"ok   {name}")
    if failed:
        print(f"the server said: {server.said()}")
    print(f"{passed} passed, {failed} failed", flush=True)
    return failed


def main(cases):
    """Runs `(name, async function of the server)` pairs against a server of their own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True, help="path of the danmaku binary")
    with Server(parser.parse_args().server) as server:
        failed = asyncio.run(run(cases, server))
    sys.exit(1 if failed else 0)


def sentence(function):
    """The name of a case as one reads it."""
    return function.__name__.replace("_", " ")


def equal(found, wanted, what="value"):
    """Fails with both sides shown."""
    if found != wanted:
        raise AssertionError(f"{what}: {found!r} is not {wanted!r}")
