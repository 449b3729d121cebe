// The protocol of bench/contenders/speaking.py for contenders that run on node: the same words, the same answers.

import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

// NODE_PATH says where the libraries are installed; `import` would not look there.
export const require = createRequire(import.meta.url);
export const pg = require("pg");

const IN_FLIGHT = 50;
const CONNECTIONS = 10;
const A_CALL = 1000;

/** CLOCK_MONOTONIC in seconds, as Python's time.monotonic(). */
const monotonic = () => Number(process.hrtime.bigint()) / 1e9;
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");

/** What the handlers of one worker write down. */
class Notes {
  count = 0;
  began = 0;
  last = 0;
  ended = [];
  waits = [];
  running = new Set();
  latest = new Map();
  disordered = 0;

  constructor(work, every) {
    const [kind, argument] = work.split(" ");
    if (kind !== "nothing" && kind !== "sleep") throw new Error(`no ${kind} here`);
    this.milliseconds = kind === "sleep" ? 1000 * Number(argument) : 0;
    this.every = every;
  }

  start(key, number) {
    if (this.running.has(key) || (this.latest.get(key) ?? -1) > number) this.disordered++;
    this.running.add(key);
    this.latest.set(key, number);
  }
}

/** One way to enqueue and to run jobs; subclasses have prepare, open, close, enqueue, enqueueAll, start, stop, LEFT and FINISH. */
export class Contender {
  constructor(dsn, options) {
    this.dsn = dsn;
    this.options = options;
  }

  /** What each job does. */
  async handled({ number, at, key }) {
    const notes = this.notes;
    const now = monotonic();
    if (!notes.began) notes.began = now;
    if (at) notes.waits.push(now - at);
    if (key) notes.start(key, number);
    if (notes.milliseconds) await sleep(notes.milliseconds);
    if (key) {
      await new Promise(setImmediate); // else none that does nothing could be seen to overlap another
      notes.running.delete(key);
    }
    notes.count++;
    notes.last = monotonic();
    if (notes.count % notes.every === 0) notes.ended.push(notes.last);
  }

  async sql(statement) {
    const client = new pg.Client({ connectionString: this.dsn });
    await client.connect();
    try {
      return (await client.query(statement)).rows;
    } finally {
      await client.end();
    }
  }
}

class Speaker {
  constructor(make) {
    this.make = make;
  }

  open({ dsn, options }) {
    this.contender = new this.make(dsn, options);
  }

  prepare() {
    return this.contender.prepare();
  }

  async fill({ count, how = "lists", keys = 0, delay = 0, pause = 0, rate = 0, warm = 0 }) {
    const contender = this.contender;
    await contender.open(how === "one by one" || how === "lists" ? 1 : CONNECTIONS);
    await this.enqueue({ count: warm, how, keys, delay, pause, rate });
    const began = monotonic();
    await this.enqueue({ count, how, keys, delay, pause, rate });
    const seconds = monotonic() - began;
    await contender.close();
    return { seconds };
  }

  async enqueue({ count, how, keys, delay, pause, rate }) {
    const contender = this.contender;
    const job = (number, at) => ({ number, at, key: keys ? `key ${number % keys}` : "" });
    const one = (number) => contender.enqueue(job(number, monotonic()));
    const began = monotonic();
    if (how === "one by one") {
      for (let number = 0; number < count; number++) {
        await one(number);
        if (pause) await sleep(1000 * pause);
      }
    } else if (how === "in flight") {
      let next = 0;
      const caller = async () => {
        while (next < count) await one(next++);
      };
      await Promise.all(Array.from({ length: IN_FLIGHT }, caller));
    } else if (how === "paced") {
      const all = [];
      for (let number = 0; number < count; number++) {
        const early = began + number / rate - monotonic();
        if (early > 0) await sleep(1000 * early);
        all.push(one(number));
      }
      await Promise.all(all);
    } else {
      for (let start = 0; start < count; start += A_CALL) {
        const length = Math.min(A_CALL, count - start);
        const jobs = Array.from({ length }, (_, at) => job(start + at, 0));
        await contender.enqueueAll(jobs, delay);
      }
    }
  }

  async finish() {
    await this.contender.sql(this.contender.FINISH);
  }

  async work({ concurrency, work = "nothing", every = 1e6 }) {
    this.contender.notes = new Notes(work, every);
    await this.contender.start(concurrency);
    this.working = true;
  }

  ran() {
    return { count: this.contender.notes.count };
  }

  report() {
    const { began, ended, last, waits, disordered } = this.contender.notes;
    return { began, ended: [...ended, last], waits, disordered };
  }

  async stop() {
    if (this.working) await this.contender.stop();
    this.working = false;
  }

  async left() {
    return { count: Number((await this.contender.sql(this.contender.LEFT))[0].count) };
  }
}

/** Be a contender. */
export async function main(make) {
  const speaker = new Speaker(make);
  say({ version: make.version, runtime: `node ${process.versions.node}` });
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: what, ...rest } = JSON.parse(line);
    try {
      say((await speaker[what](rest)) ?? {});
    } catch (error) {
      say({ error: String(error) });
    }
  }
  await speaker.stop();
  process.exit(0);
}
