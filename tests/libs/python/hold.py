"""What the scripts beside this one share: they take a real lock with a real library, and hold it.

    SCRIPT PORT SCENARIO NAME TTL_MS

SCENARIO is "ttl" (a lock that expires), "forever" (one that does not) or "renew" (one that the library itself keeps
alive). Once the lock is taken a JSON line names it; until then the script waits as the library does. Then it obeys the
lines on its standard input: "extend", "release". When that input ends it goes without releasing, as a crash would.
"""

import json
import os
import sys


class Unsupported(Exception):
    """The library has no such scenario."""


class Ask:
    def __init__(self, argv):
        self.port = int(argv[1])
        self.scenario = argv[2]
        self.name = argv[3]
        self.ttl_ms = int(argv[4])
        self.url = f"redis://127.0.0.1:{self.port}/0"

    @property
    def seconds(self):
        """The TTL in seconds; None for a lock without one."""
        return None if self.scenario == "forever" else self.ttl_ms / 1000

    @property
    def whole_seconds(self):
        return None if self.seconds is None else max(1, round(self.seconds))

    def only(self, *scenarios):
        if self.scenario not in scenarios:
            raise Unsupported(f"this library has no scenario {self.scenario!r}")


def say(**line):
    print(json.dumps(line), flush=True)


def run(take):
    """`take(ask)` takes the lock and returns its key, its token, and what "extend" and "release" do."""
    ask = Ask(sys.argv)
    try:
        key, token, extend, release = take(ask)
    except Unsupported as error:
        sys.exit(str(error))
    if isinstance(token, bytes):
        token = token.decode()
    ttl_ms = None if ask.scenario == "forever" else ask.ttl_ms
    say(key=key, token=token, ttl_ms=ttl_ms)
    for line in sys.stdin:
        word = line.strip()
        if word == "extend" and extend is not None:
            extend()
        elif word == "release":
            release()
        else:
            sys.exit(f"cannot {word}")
        say(done=word)
        if word == "release":
            break
    # No clean-up by the library: whoever only closes our input wants a holder that vanished.
    os._exit(0)
