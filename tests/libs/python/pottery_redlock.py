"""pottery: Redlock on one master."""

import redis
from hold import run
from pottery import Redlock


def take(ask):
    ask.only("ttl")
    client = redis.Redis(port=ask.port)
    lock = Redlock(key=ask.name, masters={client}, auto_release_time=ask.seconds)
    lock.acquire()
    key = f"redlock:{ask.name}"
    return key, client.get(key), lock.extend, lock.release


run(take)
