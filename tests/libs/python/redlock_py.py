"""redlock-py: Redlock on one master."""

import redlock
from hold import run


def take(ask):
    ask.only("ttl")
    manager = redlock.Redlock([{"host": "127.0.0.1", "port": ask.port}], retry_count=1000)
    lock = manager.lock(ask.name, ask.ttl_ms)
    return ask.name, lock.key, None, lambda: manager.unlock(lock)


run(take)
