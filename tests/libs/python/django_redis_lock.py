"""django-redis: cache.lock."""

from django.conf import settings
from hold import run


def take(ask):
    ask.only("ttl", "forever")
    settings.configure(CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": ask.url}})
    from django.core.cache import cache

    lock = cache.lock(ask.name, timeout=ask.seconds)
    lock.acquire()
    return f":1:{ask.name}", lock.local.token, lock.reacquire, lock.release


run(take)
