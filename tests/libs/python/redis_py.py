"""redis-py: redis.Redis.lock."""

import redis
from hold import run


def take(ask):
    ask.only("ttl", "forever")
    lock = redis.Redis(port=ask.port).lock(ask.name, timeout=ask.seconds)
    lock.acquire()
    return ask.name, lock.local.token, lock.reacquire, lock.release


run(take)
