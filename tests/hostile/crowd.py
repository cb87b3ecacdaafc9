"""The honest clients: the project's load generator, as a process of its own, in rooms with a steady talk.

In come where the server is and how many are wanted; out go whether they are still there, and what they found: their
p99 from the time at which each comment was due, and everything that they did not get.
"""

import json
import os
import subprocess
import tempfile

# Members of a room, one of whom also speaks: less than a user may say (2 a second), without end.
MEMBERS = 20
PER_PUBLISHER_S = 1.5
# Connecting, warming up, late messages: beyond it the generator hangs.
EXTRA_SECONDS_MAX = 60


class Crowd:
    """A run of the load generator; to be used as a context."""

    def __init__(self, loadtest, address, clients, seconds, core=None):
        self.folder = tempfile.TemporaryDirectory()
        self.result = os.path.join(self.folder.name, "crowd.json")
        rooms = max(clients // MEMBERS, 1)
        self.seconds = seconds
        self.command = [loadtest, "rooms", "--url", f"ws://{address[0]}:{address[1]}/ws", "--json", self.result]
        self.command += ["--rooms", str(rooms), "--members", str(MEMBERS), "--secs", str(seconds)]
        self.command += ["--rate", str(rooms * PER_PUBLISHER_S), "--warmup", "1", "--drain", "10"]
        if core is not None:
            self.command = ["taskset", "-c", str(core), *self.command]

    def __enter__(self):
        self.output = tempfile.TemporaryFile(mode="w+")
        pipe = {"stdin": subprocess.DEVNULL, "stdout": self.output, "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(self.command, **pipe)
        return self

    def running(self):
        """Whether they still talk."""
        return self.process.poll() is None

    def found(self):
        """Waits for the end; gives the numbers, `failures` among them."""
        try:
            self.process.wait(self.seconds + EXTRA_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return {"failures": [f"the honest clients did not come to an end: {self.said()}"]}
        if not os.path.exists(self.result):
            return {"failures": [f"the honest clients have no result: {self.said()}"]}
        with open(self.result) as result:
            return json.load(result)

    def said(self):
        """The end of what the generator printed."""
        self.output.seek(0)
        return self.output.read()[-600:].strip()

    def __exit__(self, *_):
        if self.running():
            self.process.kill()
        self.process.wait()
        self.folder.cleanup()
