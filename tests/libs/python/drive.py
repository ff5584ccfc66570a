"""Real locks of Python's libraries, taken and freed as the lines on standard input say.

    drive.py PORT

Each line is a JSON document: {"do": "acquire", "library": "redis_py", "client": 3, "ttl_ms": 30000} and so on with
"renew", "release" and "forget" (everything, as if all clients were new). Each is answered by a line: {"ok": true} where
the library says that it was done, false where it says no, null where it says nothing; and the token of a lock that was
taken, in base64.
"""

import base64
import json
import sys

import redis
import redis_lock
import redlock
from huey import RedisHuey
from huey.exceptions import TaskLockedException
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock, TooManyExtensions

PORT = int(sys.argv[1])
CLIENT = redis.Redis(port=PORT)


def seconds(ttl_ms):
    return None if ttl_ms is None else ttl_ms / 1000


class RedisPy:
    def __init__(self, name):
        self.name = name
        self.lock = None

    def acquire(self, ttl_ms):
        lock = CLIENT.lock(self.name, timeout=seconds(ttl_ms), blocking=False, thread_local=False)
        if not lock.acquire():
            return False, None
        self.lock = lock
        return True, lock.local.token

    def renew(self, ttl_ms):
        try:
            self.lock.extend(seconds(ttl_ms), replace_ttl=True)
        except redis.exceptions.LockError:
            return False
        return True

    def release(self):
        lock, self.lock = self.lock, None
        try:
            lock.release()
        except redis.exceptions.LockError:
            return False
        return True


class PythonRedisLock:
    def __init__(self, name):
        self.name = name
        self.lock = None

    def acquire(self, ttl_ms):
        lock = redis_lock.Lock(CLIENT, self.name, expire=None if ttl_ms is None else ttl_ms // 1000)
        if not lock.acquire(blocking=False):
            return False, None
        self.lock = lock
        return True, lock.id

    def renew(self, ttl_ms):
        try:
            self.lock.extend(ttl_ms // 1000)
        except (redis_lock.NotAcquired, redis_lock.NotExpirable):
            return False
        return True

    def release(self):
        lock, self.lock = self.lock, None
        try:
            lock.release()
        except redis_lock.NotAcquired:
            return False
        return True


class Pottery:
    def __init__(self, name):
        self.name = name
        self.lock = None

    def acquire(self, ttl_ms):
        lock = Redlock(key=self.name, masters={CLIENT}, auto_release_time=seconds(ttl_ms))
        if not lock.acquire(blocking=False):
            return False, None
        self.lock = lock
        return True, CLIENT.get(f"redlock:{self.name}")

    def renew(self, _ttl_ms):
        try:
            self.lock.extend()
        except (ExtendUnlockedLock, TooManyExtensions):
            return False
        return True

    def release(self):
        lock, self.lock = self.lock, None
        try:
            lock.release()
        except ReleaseUnlockedLock:
            return False
        return True


class RedlockPy:
    manager = None

    def __init__(self, name):
        self.name = name
        self.lock = None
        if RedlockPy.manager is None:
            RedlockPy.manager = redlock.Redlock([{"host": "127.0.0.1", "port": PORT}], retry_count=1, retry_delay=0)

    def acquire(self, ttl_ms):
        lock = self.manager.lock(self.name, ttl_ms)
        if not lock:
            return False, None
        self.lock = lock
        return True, lock.key

    def release(self):
        lock, self.lock = self.lock, None
        self.manager.unlock(lock)


class Huey:
    app = RedisHuey("shop", port=PORT)

    def __init__(self, name):
        self.lock = self.app.lock_task(name)

    def acquire(self, _ttl_ms):
        try:
            self.lock.acquire()
        except TaskLockedException:
            return False, None
        return True, b"shop.lock.nightly"

    def release(self):
        return bool(self.lock.clear())


LIBRARIES = {
    "redis_py": (RedisPy, "orders-lock"),
    "python_redis_lock": (PythonRedisLock, "orders"),
    "pottery": (Pottery, "orders"),
    "redlock_py": (RedlockPy, "thumbnails-lock"),
    "huey": (Huey, "nightly"),
}


def main():
    clients = {}
    for line in sys.stdin:
        order = json.loads(line)
        token = None
        if order["do"] == "forget":
            clients.clear()
            ok = True
        else:
            kind, name = LIBRARIES[order["library"]]
            client = clients.setdefault(order["client"], kind(name))
            if order["do"] == "acquire":
                ok, token = client.acquire(order["ttl_ms"])
            elif order["do"] == "renew":
                ok = client.renew(order["ttl_ms"])
            else:
                ok = client.release()
        if isinstance(token, str):
            token = token.encode()
        shown = None if token is None else base64.b64encode(token).decode()
        print(json.dumps({"ok": ok, "token": shown}), flush=True)


main()
