"""celery-singleton: the lock of a task that was queued and not yet run."""

from celery import Celery
from celery_singleton import Singleton
from hold import run


def take(ask):
    ask.only("ttl", "forever")
    app = Celery("tests", broker="memory://")
    app.conf.singleton_backend_url = ask.url

    @app.task(base=Singleton, name=ask.name, lock_expiry=ask.whole_seconds)
    def task():
        pass

    result = task.delay()
    return task.generate_lock(ask.name), result.id, None, task.release_lock


run(take)
