"""redis-py and python-redis-lock under load: threads that take and free locks, each over a connection of its own.

Arguments: the port, and a JSON list of jobs {lib, name, workers, lease, hold, pause}: times in seconds, hold and pause as
[shortest, longest]; a lease of null never ends; "renew" lets python-redis-lock renew it. Says {"ready": true} once all
are connected. On the line "stop" all end after the lock they hold, and what they counted themselves is said: {key:
{"attempts": N, "failures": N}}. On the line "count" what they counted so far.
"""

import json
import random
import sys
import threading
import time

import redis
import redis_lock

counts = {}
guard = threading.Lock()
stopping = threading.Event()


class Counting(redis.Redis):
    """Counts each SET NX, which both libraries try to take a lock with."""

    def set(self, name, value, *args, nx=False, **more):
        got = super().set(name, value, *args, nx=nx, **more)
        if nx:
            with guard:
                count = counts.setdefault(name, {"attempts": 0, "failures": 0})
                count["attempts"] += 1
                count["failures"] += 0 if got else 1
        return got


def work(client, job, chance):
    while not stopping.is_set():
        if job["lib"] == "redis-py":
            lock = client.lock(job["name"], timeout=job["lease"], sleep=job.get("sleep", 0.05), blocking_timeout=1)
            got = lock.acquire()
        else:
            renew = job.get("renew", False)
            lock = redis_lock.Lock(client, job["name"], expire=job["lease"], auto_renewal=renew)
            got = lock.acquire(timeout=1)
        if got:
            time.sleep(chance.uniform(*job["hold"]))
            try:
                lock.release()
            except (redis.exceptions.LockError, redis_lock.NotAcquired):
                # It was lost meanwhile, as it may be meant to be.
                pass
        stopping.wait(chance.uniform(*job["pause"]))


def say(word):
    print(json.dumps(word), flush=True)


def main():
    port, jobs = int(sys.argv[1]), json.loads(sys.argv[2])
    threads = []
    for job in jobs:
        for number in range(job["workers"]):
            name = "{}-{}".format(job["name"].replace(":", "-"), number)
            client = Counting(port=port, client_name=name)
            client.ping()
            chance = random.Random(name)
            threads.append(threading.Thread(target=work, args=(client, job, chance), daemon=True))
    for thread in threads:
        thread.start()
    say({"ready": True})
    for line in sys.stdin:
        if line.strip() == "count":
            with guard:
                say(counts)
        elif line.strip() == "stop":
            break
    stopping.set()
    for thread in threads:
        thread.join()
    say(counts)


main()
