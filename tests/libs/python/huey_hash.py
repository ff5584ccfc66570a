"""Huey with its usual storage: a field of the hash that also holds the results. The name is APP/LOCK."""

from hold import run
from huey import RedisHuey


def take(ask):
    ask.only("forever")
    app, name = ask.name.split("/")
    huey = RedisHuey(app, port=ask.port)
    # A result beside the lock, as there would be.
    huey.put(f"{app}.result", {"fine": True})
    lock = huey.lock_task(name)
    lock.acquire()
    return f"huey.results.{app}", f"{app}.lock.{name}", None, lock.release


run(take)
