"""RedBeat: the lock by which one beat of several is the active one. The name is the key prefix."""

import threading
import time

import redis
from celery import Celery
from celery.beat import Service
from celery.signals import beat_init
from hold import run
from redbeat import RedBeatScheduler


def take(ask):
    ask.only("ttl", "renew")
    app = Celery("tests", broker="memory://")
    app.conf.redbeat_redis_url = ask.url
    app.conf.redbeat_key_prefix = ask.name
    app.conf.redbeat_lock_timeout = ask.whole_seconds
    app.conf.beat_max_loop_interval = ask.seconds / 5
    service = Service(app, scheduler_cls=RedBeatScheduler)
    scheduler = service.scheduler
    # A lock of redis-py belongs to the thread that took it, so the one that ticks also has to release it.
    if ask.scenario == "renew":
        threading.Thread(target=service.start, daemon=True).start()
        extend, release = None, lambda: service.stop(wait=True)
    else:
        beat_init.send(sender=service)
        extend, release = lambda: scheduler.lock.extend(ask.whole_seconds), scheduler.close
    while scheduler.lock is None:
        time.sleep(0.005)
    return scheduler.lock_key, redis.Redis(port=ask.port).get(scheduler.lock_key), extend, release


run(take)
