"""What the attacked server is set to, and how much memory that lets an attacker cost.

In come `deploy/danmaku.toml`, which holds every default, and `section.key=value` words that stand above it; out
go numbers in bytes, seconds and counts, the environment that makes a server of our own agree with them, and
the bound of the process's memory for what an attack holds open.
"""

import pathlib
import re
import tomllib

REFERENCE = pathlib.Path(__file__).resolve().parent.parent.parent / "deploy" / "danmaku.toml"
SIZES = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
TIMES = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}

# The rows of docs/limits.md, "Memory at worst", that are no keys: bytes.
SESSION_BYTES = 1 << 10
READ_BUFFER_BYTES = 64 << 10
ENTRY_BYTES = 512
REQUEST_BYTES = 4 << 10
# A room that nobody has written in: its places in the tables, its replica, its owner and its chain.
EMPTY_ROOM_BYTES = 4 << 10
# What a comment costs in the log, in forms and in the store, for each byte of its text and around it.
SAID_TIMES = 4
# Read buffers, inflaters, encoders, rings; and what an allocator keeps between two trims.
PROCESS_BYTES = 32 << 20


class Limits:
    """The settings by name: `limits["websocket.handshake"]`."""

    def __init__(self, words=()):
        self.values = {}
        for section, keys in tomllib.loads(REFERENCE.read_text()).items():
            if isinstance(keys, dict):
                self.values.update({f"{section}.{key}": number(value) for key, value in keys.items()})
        self.environment = {}
        for word in words:
            name, found, value = word.partition("=")
            if not found or name not in self.values:
                raise ValueError(f"{word!r} is not a key of {REFERENCE.name} with a value, as websocket.handshake=2s")
            self.values[name] = number(value)
            self.environment["DANMAKU__" + name.upper().replace(".", "__")] = value

    def __getitem__(self, name):
        return self.values[name]

    def session_bytes(self):
        """What one open session may make the server hold."""
        message = 2 * self["websocket.message_bytes_max"]
        snapshot = self["room.snapshot_entries"] * (self["limits.text_bytes_max"] + ENTRY_BYTES)
        return SESSION_BYTES + message + READ_BUFFER_BYTES + self["websocket.outbox_bytes_max"] + snapshot

    def handshake_bytes(self):
        """The same for a connection that is none yet."""
        return REQUEST_BYTES + 2 * (self["http.head_bytes_max"] + self["http.body_bytes_max"])

    def memory_bound(self, before, holds):
        """Bytes that the process may have while an attack holds `holds` open, and the sum in words."""
        parts = [
            ("before", before),
            ("of the process", PROCESS_BYTES),
            (f"{holds.handshakes} handshakes", holds.handshakes * self.handshake_bytes()),
            (f"{holds.sessions} sessions", holds.sessions * self.session_bytes()),
            (f"{holds.rooms} rooms", holds.rooms * EMPTY_ROOM_BYTES),
            ("said", SAID_TIMES * holds.said_bytes),
        ]
        if holds.unread:
            tails = min(holds.unread * self["websocket.message_bytes_max"], self["slow_consumer.tail_bytes_max"])
            parts.append((f"{holds.unread} tails", tails))
        words = " + ".join(f"{size / (1 << 20):.0f} {name}" for name, size in parts if size)
        return sum(size for _, size in parts), f"{words} MiB"


class Holds:
    """What an attack keeps open at once at most, as it notes itself."""

    def __init__(self):
        self.handshakes = self.sessions = self.rooms = self.unread = self.said_bytes = 0

    def note(self, **now):
        for name, value in now.items():
            setattr(self, name, max(getattr(self, name), value))


def number(value):
    """A size in bytes, a time in seconds, or the value itself."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"([0-9][0-9_]*(?:\.[0-9]+)?)([A-Za-z]*)", value)
    if not found:
        return value
    amount, unit = float(found[1].replace("_", "")), found[2]
    if unit in TIMES:
        return amount * TIMES[unit]
    return int(amount * SIZES[unit]) if unit in SIZES else value
