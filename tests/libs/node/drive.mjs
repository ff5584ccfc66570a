// Real locks of Node's libraries, taken and freed as the lines on standard input say.
//
//     drive.mjs PORT
//
// The lines and their answers are those of ../python/drive.py.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const required = createRequire(pathToFileURL(`${process.env.NODE_LIBS}/`));
const Redis = required("ioredis");
const { Mutex, Semaphore } = required("redis-semaphore");
const Redlock4 = required("redlock");
const path = `${process.env.NODE_LIBS}/node_modules/redlock5/dist/esm/index.js`;
const { default: Redlock5 } = await import(pathToFileURL(path));

const client = new Redis(Number(process.argv[2]));
const redlock4 = new Redlock4([client], { retryCount: 0 });
const redlock5 = new Redlock5([client], { retryCount: 0 });
redlock4.on("error", () => {});
redlock5.on("error", () => {});

const no = () => false;
const yes = () => true;

class RedlockFour {
  async acquire(ttl) {
    const lock = await redlock4.lock(["orders-lock"], ttl).catch(() => null);
    if (!lock) return [false];
    this.lock = lock;
    return [true, lock.value];
  }

  async renew(ttl) {
    const longer = await this.lock.extend(ttl).catch(() => null);
    if (longer) this.lock = longer;
    return Boolean(longer);
  }

  release() {
    return this.lock.unlock().then(yes, no);
  }
}

class RedlockFive {
  async acquire(ttl) {
    const lock = await redlock5.acquire(["orders-lock"], ttl).catch(() => null);
    if (!lock) return [false];
    this.lock = lock;
    return [true, lock.value];
  }

  async renew(ttl) {
    const longer = await this.lock.extend(ttl).catch(() => null);
    if (longer) this.lock = longer;
    return Boolean(longer);
  }

  release() {
    return this.lock.release().then(yes, no);
  }
}

// Neither says whether it had the lock when it is released. One attempt only: nobody frees it meanwhile.
const once = { refreshInterval: 0, acquireAttemptsLimit: 1 };

class NpmMutex {
  make(ttl) {
    return new Mutex(client, "orders", { lockTimeout: ttl, ...once });
  }

  async acquire(ttl) {
    const lock = this.make(ttl);
    if (!(await lock.tryAcquire())) return [false];
    this.lock = lock;
    return [true, lock.identifier];
  }

  async release() {
    await this.lock.release();
    return null;
  }
}

class NpmSemaphore extends NpmMutex {
  make() {
    return new Semaphore(client, "orders", 2, { lockTimeout: 10000, ...once });
  }
}

const libraries = { redlock_v4: RedlockFour, redlock_v5: RedlockFive, npm_mutex: NpmMutex, npm_semaphore: NpmSemaphore };
let clients = new Map();

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  let [ok, token] = [true, undefined];
  if (order.do === "forget") {
    clients = new Map();
  } else {
    if (!clients.has(order.client)) clients.set(order.client, new libraries[order.library]());
    const its = clients.get(order.client);
    if (order.do === "acquire") [ok, token] = await its.acquire(order.ttl_ms);
    else if (order.do === "renew") ok = await its.renew(order.ttl_ms);
    else ok = await its.release();
  }
  const shown = token === undefined ? null : Buffer.from(token).toString("base64");
  process.stdout.write(`${JSON.stringify({ ok, token: shown })}\n`);
}
