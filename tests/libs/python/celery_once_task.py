"""celery-once: the lock of a task that was queued and not yet run."""

import redis
from celery import Celery
from celery_once import QueueOnce
from hold import run


def take(ask):
    ask.only("ttl")
    app = Celery("tests", broker="memory://")
    settings = {"url": ask.url, "default_timeout": ask.whole_seconds}
    app.conf.ONCE = {"backend": "celery_once.backends.Redis", "settings": settings}

    @app.task(base=QueueOnce, name=ask.name)
    def task(customer):
        pass

    task.delay(customer=7)
    key = task.get_key(kwargs={"customer": 7})
    return key, redis.Redis(port=ask.port).get(key), None, lambda: task.once_backend.clear_lock(key)


run(take)
