// pg-boss: a batch has as many jobs as there are slots, and a worker that got a full one is notified at once instead of polling again
// in half a second, the least that it allows. A key is the singleton key of a queue with the policy "singleton".

import { Contender, main, require } from "./speaking.mjs";

const PgBoss = require("pg-boss");

class Boss extends Contender {
  static version = require("pg-boss/package.json").version;
  LEFT = "SELECT count(*) FROM pgboss.job WHERE name IN ('note', 'keyed') AND state < 'completed' AND start_after < now() + interval '1 hour'";
  FINISH = "UPDATE pgboss.job SET state = 'completed', started_on = now(), completed_on = now() WHERE name IN ('note', 'keyed')";

  async open(connections) {
    this.boss = new PgBoss({ connectionString: this.dsn, max: connections, supervise: false, schedule: false });
    this.boss.on("error", () => {});
    await this.boss.start();
  }

  async close() {
    await this.boss.stop({ graceful: false, wait: true });
  }

  async prepare() {
    await this.open(1);
    await this.boss.createQueue("note");
    await this.boss.createQueue("keyed", { policy: "singleton" });
    await this.close();
  }

  job(data) {
    return data.key ? { name: "keyed", data, singletonKey: data.key } : { name: "note", data };
  }

  async enqueue(job) {
    const { name, data, ...options } = this.job(job);
    await this.boss.send(name, data, options);
  }

  async enqueueAll(jobs, delay) {
    const when = delay ? { startAfter: new Date(Date.now() + 1000 * delay) } : {};
    await this.boss.insert(jobs.map((job) => ({ ...this.job(job), ...when })));
  }

  async start(batchSize) {
    this.boss = new PgBoss({ connectionString: this.dsn });
    this.boss.on("error", () => {});
    await this.boss.start();
    for (const name of ["note", "keyed"]) {
      const id = await this.boss.work(name, { batchSize, pollingIntervalSeconds: 0.5 }, async (jobs) => {
        await Promise.all(jobs.map((job) => this.handled(job.data)));
        if (jobs.length === batchSize || name === "keyed") this.boss.notifyWorker(id);
      });
    }
  }

  async stop() {
    await this.boss.stop({ graceful: true, wait: true });
  }
}

await main(Boss);
