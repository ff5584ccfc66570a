"""Huey with expiring results: a string of its own for each lock. The name is APP/LOCK."""

from hold import run
from huey import RedisExpireHuey


def take(ask):
    ask.only("ttl", "forever")
    app, name = ask.name.split("/")
    huey = RedisExpireHuey(app, port=ask.port)
    huey.put(f"{app}.result", {"fine": True})
    lock = huey.lock_task(name, ttl=ask.whole_seconds)
    lock.acquire()
    return f"huey.r.{app}.{app}.lock.{name}", None, None, lock.release


run(take)
