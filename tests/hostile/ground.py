"""What an attack stands on: where the server is, for how long, how fast, and what it must answer for.

An attack is a function of a `Ground`. It loops while `goes_on()`, calls `pace()` between its steps, notes what it
holds open and which counters must have moved, and raises AssertionError where the server answered wrongly.
"""

import resource
import select
import time

from limits import Holds
from peer import Peer

# Of the core that it shares with the honest clients, who take a tenth, averaged over every window: beyond that the
# clients would measure each other.
CPU_SHARE_MAX = 0.60
CPU_SHARE_AIM = 0.45
WINDOW_SECONDS = 1.0
# What is granted beyond a bound of the server's before it counts as broken: a busy machine looks late.
SLACK_SECONDS = 5.0
ATTACKS = {}


def attack(name, answer):
    """Puts an attack into the list; `answer` says what the server must do."""

    def put(function):
        ATTACKS[name] = (function, answer)
        return function

    return put


class Governor:
    """Keeps this process under its share of a core, and knows how much it took."""

    def __init__(self):
        self.highest = 0.0
        self.begin()

    def begin(self):
        self.started, self.spent = time.monotonic(), spent_seconds()

    def pace(self):
        """Sleeps where the present window has used more than its share."""
        wall, cpu = time.monotonic() - self.started, spent_seconds() - self.spent
        if cpu > CPU_SHARE_AIM * wall:
            time.sleep(cpu / CPU_SHARE_AIM - wall)
            wall = time.monotonic() - self.started
        if wall >= WINDOW_SECONDS:
            self.highest = max(self.highest, cpu / wall)
            self.begin()


def spent_seconds():
    """CPU seconds of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Ground:
    """One attack's share of the run."""

    def __init__(self, address, limits, seconds, quick, governor, counters, workers, running=None):
        self.address = address
        self.host = f"{address[0]}:{address[1]}"
        self.limits = limits
        self.quick = quick
        self.governor = governor
        self.counters = counters
        self.workers = workers
        # Of the attack by random room names: at least so many.
        self.names = 0
        self.holds = Holds()
        self.expected = {}
        # Counters that may move further than expected; the honest clients leave with 1000, and join.
        self.loose = {"closed_1000", "joins"}
        self.done = {}
        self.running = running
        self.seconds = seconds
        self.ready()

    def ready(self):
        """Preparations are over: the attack's time begins."""
        self.rounds = 0
        self.until = time.monotonic() + self.seconds

    def goes_on(self):
        """Whether the attack is to go on; it stands still for as long as its CPU share asks."""
        self.pace()
        self.rounds += 1
        return self.rounds == 1 or time.monotonic() < self.until or bool(self.running and self.running())

    def pace(self):
        self.governor.pace()

    def peer(self, **options):
        """A fresh connection."""
        return Peer(self.address, **options)

    def session(self, room="hostile", receive_buffer=None, **options):
        """A fresh connection that has become a session."""
        return self.peer(receive_buffer=receive_buffer).open(room, self.host, **options)

    def member(self, room):
        """A fresh connection that has become a member of a room."""
        peer = self.session(room)
        peer.until(lambda got: True if b'{"joined":' in got else None, SLACK_SECONDS, "joined")
        return peer

    def sessions(self, count, **options):
        """As many sessions, opened one after the other."""
        opened = []
        for _ in range(count):
            opened.append(self.session(**options))
            self.pace()
        self.holds.note(sessions=count)
        return opened

    def count(self, what, number=1):
        """Counts something done, for the report."""
        self.done[what] = self.done.get(what, 0) + number

    def counter(self, name):
        """A counter of the server's as it is now."""
        return self.counters()[name]

    def moves(self, counter, number):
        """A counter of /metrics that must have moved by so much more when the attack is over."""
        self.expected[counter] = self.expected.get(counter, 0) + number

    def moves_at_least(self, counter, number):
        """The same where the server may count more."""
        self.moves(counter, number)
        self.loose.add(counter)

    def closed_with(self, peer, code, seconds=0.0):
        """The server must close with this code, and end the connection at once when we have shut our side."""
        found = peer.close_code(seconds + SLACK_SECONDS)
        if found != code:
            raise AssertionError(f"closed with {found} in place of {code}")
        peer.shut()
        peer.end(SLACK_SECONDS)
        peer.close()
        self.moves(f"closed_{code}", 1)
        self.count(f"closed with {code}")


def readable(peers, seconds=0.0):
    """Those of the peers that can be read, or have ended."""
    poll = select.poll()
    by_number = {peer.fileno(): peer for peer in peers}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(seconds * 1000)]


def hear(peers, seconds=0.0):
    """Reads what there is, once each; gives those whose connection ended."""
    return [peer for peer in readable(peers, seconds) if not peer.read(0)]
