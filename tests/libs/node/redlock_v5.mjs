// redlock 5: Redlock.acquire, and using(), which extends by itself, in the scenario "renew".
// The name may be several resources with commas between them.
import { ask, hold, load, loadModule, only } from "./hold.mjs";

only("ttl", "renew");
const Redis = load("ioredis");
const { default: Redlock } = await loadModule("redlock5/dist/esm/index.js");
const redlock = new Redlock([new Redis(ask.port)], { retryCount: -1, automaticExtensionThreshold: ask.ttl / 2 });
const resources = ask.name.split(",");

if (ask.scenario === "ttl") {
  let lock = await redlock.acquire(resources, ask.ttl);
  const extend = async () => {
    lock = await lock.extend(ask.ttl);
  };
  await hold({ key: resources[0], token: lock.value, extend, release: () => lock.release() });
} else {
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  let done;
  const started = new Promise((resolve) => {
    done = redlock.using(resources, ask.ttl, async () => {
      resolve();
      await finished;
    });
  });
  await started;
  // using() tells its routine no value: it is read where it is stored.
  const token = await new Redis(ask.port).get(resources[0]);
  const release = async () => {
    finish();
    await done;
  };
  await hold({ key: resources[0], token, release });
}
