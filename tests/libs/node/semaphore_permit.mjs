// redis-semaphore: one of three permits of a Semaphore, which refreshes by itself in the scenario "renew".
import { ask, hold, load, only } from "./hold.mjs";

only("ttl", "renew");
const Redis = load("ioredis");
const { Semaphore } = load("redis-semaphore");
const refresh = ask.scenario === "renew" ? {} : { refreshInterval: 0 };
const options = { lockTimeout: ask.ttl, acquireTimeout: 60000, ...refresh };
const semaphore = new Semaphore(new Redis(ask.port), ask.name, 3, options);
await semaphore.acquire();
await hold({ key: `semaphore:${ask.name}`, token: semaphore.identifier, release: () => semaphore.release() });
