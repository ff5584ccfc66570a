"""python-redis-lock: redis_lock.Lock, with its renewing thread in the scenario "renew"."""

import redis
import redis_lock
from hold import run


def take(ask):
    client = redis.Redis(port=ask.port)
    lock = redis_lock.Lock(client, ask.name, expire=ask.whole_seconds, auto_renewal=ask.scenario == "renew")
    lock.acquire()
    return f"lock:{ask.name}", lock.id, lock.extend, lock.release


run(take)
