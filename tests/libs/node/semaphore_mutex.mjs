// redis-semaphore: Mutex, which refreshes by itself in the scenario "renew".
import { ask, hold, load, only } from "./hold.mjs";

only("ttl", "renew");
const Redis = load("ioredis");
const { Mutex } = load("redis-semaphore");
const refresh = ask.scenario === "renew" ? {} : { refreshInterval: 0 };
const mutex = new Mutex(new Redis(ask.port), ask.name, { lockTimeout: ask.ttl, acquireTimeout: 60000, ...refresh });
await mutex.acquire();
await hold({ key: `mutex:${ask.name}`, token: mutex.identifier, release: () => mutex.release() });
