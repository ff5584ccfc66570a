// What the scripts beside this one share: they take a real lock with a real library, and hold it.
//
//     SCRIPT PORT SCENARIO NAME TTL_MS
//
// The scenarios and the lines on standard input and output are those of ../python/hold.py.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// The packages are not beside this file: NODE_LIBS is the directory that holds node_modules.
const required = createRequire(pathToFileURL(`${process.env.NODE_LIBS}/`));
export const load = (name) => required(name);
export const loadModule = (path) => import(pathToFileURL(`${process.env.NODE_LIBS}/node_modules/${path}`));

const [port, scenario, name, ttl] = process.argv.slice(2);
export const ask = { port: Number(port), scenario, name, ttl: Number(ttl) };

export function only(...scenarios) {
  if (!scenarios.includes(scenario)) {
    console.error(`this library has no scenario '${scenario}'`);
    process.exit(1);
  }
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// Names the lock that was taken, and does what standard input says.
export async function hold({ key, token, extend, release }) {
  say({ key, token, ttl_ms: scenario === "forever" ? null : ask.ttl });
  for await (const line of createInterface({ input: process.stdin })) {
    const word = line.trim();
    const act = { extend, release }[word];
    if (!act) {
      console.error(`cannot ${word}`);
      process.exit(1);
    }
    await act();
    say({ done: word });
    if (word === "release") break;
  }
  // Without the libraries' own clean-up: whoever only closes our input wants a holder that vanished.
  process.exit(0);
}
