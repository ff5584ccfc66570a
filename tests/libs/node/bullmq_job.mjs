// BullMQ: the lock of a job that a worker is at. The name is the queue's; the worker renews every half of the TTL.
import { ask, hold, load, only } from "./hold.mjs";

only("renew");
const { Queue, Worker } = load("bullmq");
const connection = { port: ask.port, maxRetriesPerRequest: null };
const queue = new Queue(ask.name, { connection });
let finish;
const finished = new Promise((resolve) => (finish = resolve));
const started = new Promise((resolve) => {
  const work = async (job, token) => {
    resolve({ job, token });
    await finished;
  };
  new Worker(ask.name, work, { connection, lockDuration: ask.ttl });
});
await queue.add("work", {});
const { job, token } = await started;
const release = async () => {
  finish();
  while (!(await job.isCompleted())) await new Promise((resolve) => setTimeout(resolve, 5));
};
await hold({ key: `bull:${ask.name}:${job.id}:lock`, token, release });
