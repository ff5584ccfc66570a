// redlock 4: Redlock.lock.
import { ask, hold, load, only } from "./hold.mjs";

only("ttl");
const Redis = load("ioredis");
const Redlock = load("redlock");
const redlock = new Redlock([new Redis(ask.port)], { retryCount: -1 });
let lock = await redlock.lock(ask.name.split(","), ask.ttl);
const extend = async () => {
  lock = await lock.extend(ask.ttl);
};
await hold({ key: lock.resource[0], token: lock.value, extend, release: () => lock.unlock() });
