"""redis-py's Lock on a whole cluster or on a Sentinel service, under load.

    keyspace_load.py PORT

Each line on standard input is an order, and is answered by one line. The first is {"do": "start", "cluster": [PORT, …]} or
{"do": "start", "sentinels": [PORT, …], "service": NAME}. Then {"do": "rest"}: all clients end what they are at, and wait;
{"do": "go"}: they go on, and locks that stay but were lost are taken again; {"do": "count"}. Each answer has {"turns": {NAME: N}, "stuck": N}: how
many locks each kind of client took, renewed and freed so far, and how many clients do not rest though they should.
"""

import faulthandler
import json
import sys
import threading
import time

import redis
from redis.cluster import ClusterNode, RedisCluster
from redis.sentinel import Sentinel

STAYING = 12
LEASE = 600
# Whoever does not answer for this long is lost.
PATIENCE = 0.5

turns = {"redis-py": 0, "redis-py, renewing": 0}
guard = threading.Lock()
going = threading.Event()
idle = threading.Semaphore(0)


def connect(order):
    timeouts = {"socket_timeout": PATIENCE, "socket_connect_timeout": PATIENCE}
    if "cluster" in order:
        nodes = [ClusterNode("127.0.0.1", port) for port in order["cluster"]]
        return RedisCluster(startup_nodes=nodes, **timeouts)
    places = [("127.0.0.1", port) for port in order["sentinels"]]
    return Sentinel(places, **timeouts).master_for(order["service"], **timeouts)


def connected(order):
    """A client, once there is somebody to connect to."""
    while True:
        try:
            client = connect(order)
            client.ping()
            return client
        except redis.exceptions.RedisError:
            time.sleep(0.05)


def lock_of(client, name, lease):
    return client.lock(name, timeout=lease, blocking=False, thread_local=False)


def counted(kind):
    with guard:
        turns[kind] += 1


def pause():
    """Waits until all may go on, and says meanwhile that this client does nothing."""
    if not going.is_set():
        idle.release()
        going.wait()


def work(order, number):
    client = connected(order)
    for turn in range(10**9):
        pause()
        try:
            lock = lock_of(client, "lock:redis-py:{}".format((turn + number) % 10), 30)
            if lock.acquire():
                lock.extend(60, replace_ttl=True)
                time.sleep(0.005)
                lock.release()
                counted("redis-py")
        except redis.exceptions.LockError:
            # Lost in a failover, or with the server that had it.
            pass
        except redis.exceptions.RedisError:
            time.sleep(0.02)
        time.sleep(0.005)


def renew(order, number):
    client = connected(order)
    lock = lock_of(client, "lock:redis-py:renewed:{}".format(number), 20)
    held = False
    while True:
        pause()
        try:
            if held:
                lock.extend(20, replace_ttl=True)
                counted("redis-py, renewing")
            else:
                held = lock.acquire()
        except redis.exceptions.LockError:
            held = False
        except redis.exceptions.RedisError:
            time.sleep(0.02)
        time.sleep(0.05)


def stay(client):
    """Takes the locks that stay, as far as nobody has them and their server answers."""
    for number in range(STAYING):
        name = "lock:stays:redis-py:{}".format(number)
        try:
            if not client.exists(name):
                lock_of(client, name, LEASE).acquire()
        except redis.exceptions.RedisError:
            time.sleep(0.05)


def wait_for(threads):
    """Waits until all rest; how many of them do not."""
    end = time.monotonic() + 20
    return sum(not idle.acquire(timeout=max(0, end - time.monotonic())) for _ in threads)


def main():
    threads, client = [], None
    for line in sys.stdin:
        word, stuck = json.loads(line), 0
        # Says where, and ends, if an order is never done.
        faulthandler.dump_traceback_later(45, exit=True)
        if word["do"] == "start":
            client = connected(word)
            for number in range(2):
                threads.append(threading.Thread(target=work, args=(word, number), daemon=True))
                threads.append(threading.Thread(target=renew, args=(word, number), daemon=True))
            for thread in threads:
                thread.start()
            stuck = wait_for(threads)
        elif word["do"] == "rest":
            going.clear()
            stuck = wait_for(threads)
        elif word["do"] == "go":
            stay(client)
            going.set()
        faulthandler.cancel_dump_traceback_later()
        with guard:
            print(json.dumps({"turns": turns, "stuck": stuck}), flush=True)


main()
