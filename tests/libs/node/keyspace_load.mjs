// Locks of node-redlock and of redis-semaphore, both over ioredis, on a whole cluster or on a Sentinel service, under load.
//
//     keyspace_load.mjs PORT
//
// The lines and their answers are those of ../python/keyspace_load.py.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const required = createRequire(pathToFileURL(`${process.env.NODE_LIBS}/`));
const Redis = required("ioredis");
const { Mutex } = required("redis-semaphore");
const path = `${process.env.NODE_LIBS}/node_modules/redlock5/dist/esm/index.js`;
const { default: Redlock } = await import(pathToFileURL(path));

const STAYING = 12;
const LEASE = 600_000;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
// Whoever does not answer for this long is lost.
const timeouts = { commandTimeout: 500, connectTimeout: 500 };
const soon = () => 50;
// Gives up what never comes to an end.
const inTime = (doing) => Promise.race([doing, sleep(3_000).then(() => Promise.reject(new Error("late")))]);

// What the client asks for itself, such as the owners of slots, may fail with nobody to tell.
process.on("unhandledRejection", () => {});

const turns = { "node-redlock": 0, "redis-semaphore": 0 };
let [client, redlock, clients] = [undefined, undefined, 0];
let [going, resting] = [false, 0];
let [wanted, succeeded] = [undefined, 0];

// After two seconds without a success the client is made anew, as a process that is started again does.
function open() {
  client?.disconnect();
  client = connect(wanted);
  client.on("error", () => {});
  redlock = new Redlock([client], { retryCount: 0 });
  redlock.on("error", () => {});
  succeeded = Date.now();
}

async function failed() {
  if (Date.now() - succeeded > 2_000) open();
  await sleep(20);
}

function connect(order) {
  const place = (port) => ({ host: "127.0.0.1", port });
  if (order.cluster) {
    const options = { redisOptions: timeouts, clusterRetryStrategy: soon, slotsRefreshTimeout: 500 };
    return new Redis.Cluster(order.cluster.map(place), options);
  }
  return new Redis({
    sentinels: order.sentinels.map(place),
    name: order.service,
    failoverDetector: true,
    sentinelRetryStrategy: soon,
    retryStrategy: soon,
    reconnectOnError: (error) => error.message.startsWith("READONLY") && 2,
    ...timeouts,
  });
}

// Waits until all may go on, and says meanwhile that this client does nothing.
async function pause() {
  if (going) return;
  resting += 1;
  while (!going) await sleep(5);
  resting -= 1;
}

async function work(number) {
  for (let turn = number; ; turn += 1) {
    await pause();
    try {
      let lock = await inTime(redlock.acquire([`lock:redlock:${turn % 10}`], 30_000));
      lock = await inTime(lock.extend(60_000));
      await sleep(5);
      await inTime(lock.release());
      turns["node-redlock"] += 1;
      succeeded = Date.now();
    } catch {
      // Somebody else has it, it was lost, or nobody answers.
      await failed();
    }
    await sleep(5);
  }
}

// Its watchdog renews it several times for as long as it is held.
async function renew(number) {
  const options = { lockTimeout: 20_000, refreshInterval: 60, acquireAttemptsLimit: 1, onLockLost: () => {} };
  for (let turn = 0; ; turn += 1) {
    await pause();
    try {
      const mutex = new Mutex(client, `${number}:${turn % 5}`, options);
      if (await inTime(mutex.tryAcquire())) {
        await sleep(200);
        await inTime(mutex.release());
        turns["redis-semaphore"] += 1;
      }
    } catch {
      await failed();
    }
    await sleep(5);
  }
}

// Takes the locks that stay, as far as nobody has them and their server answers: ioredis asks a master that hangs again and
// again, although another has its place.
async function stay() {
  for (let number = 0; number < STAYING; number += 1) {
    const name = `lock:stays:redlock:${number}`;
    try {
      if (!(await inTime(client.exists(name)))) await inTime(redlock.acquire([name], LEASE));
    } catch {
      await sleep(50);
    }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  const limit = setTimeout(() => process.exit(1), 45_000);
  if (order.do === "start") {
    wanted = order;
    open();
    for (const start of [work, work, renew]) start(clients++);
  } else if (order.do === "go") {
    await stay();
    [going, succeeded] = [true, Date.now()];
  }
  if (order.do === "start" || order.do === "rest") {
    going = false;
    const end = Date.now() + 20_000;
    while (resting < clients && Date.now() < end) await sleep(5);
  }
  clearTimeout(limit);
  const stuck = going ? 0 : clients - resting;
  process.stdout.write(`${JSON.stringify({ turns, stuck })}\n`);
}
process.exit(0);
