// Graphile Worker: its defaults; with the option `localQueue` a local queue of that size and completions in batches, as its page on
// performance advises. A key is a queue name.

import { Contender, main, require } from "./speaking.mjs";

const { Logger, makeWorkerUtils, run } = require("graphile-worker");

const logger = new Logger(() => () => {});

class GraphileWorker extends Contender {
  static version = require("graphile-worker/package.json").version;
  // It deletes what has run.
  LEFT = "SELECT count(*) FROM graphile_worker._private_jobs WHERE run_at < now() + interval '1 hour'";
  FINISH = "DELETE FROM graphile_worker._private_jobs";

  preset(worker) {
    return { preset: { worker: { connectionString: this.dsn, logger, ...worker } } };
  }

  async prepare() {
    await this.open(1);
    await this.utils.migrate();
    await this.close();
  }

  async open(connections) {
    this.utils = await makeWorkerUtils(this.preset({ maxPoolSize: connections }));
  }

  async close() {
    await this.utils.release();
  }

  async enqueue(job) {
    await this.utils.addJob("note", job, { queueName: job.key || undefined });
  }

  async enqueueAll(jobs, delay) {
    const runAt = delay ? new Date(Date.now() + 1000 * delay) : undefined;
    await this.utils.addJobs(
      jobs.map((payload) => ({ identifier: "note", payload, runAt, queueName: payload.key || undefined })),
    );
  }

  async start(concurrentJobs) {
    const size = this.options.localQueue;
    const batches = size ? { localQueue: { size }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {};
    this.runner = await run({
      ...this.preset({ concurrentJobs, maxPoolSize: Math.max(10, concurrentJobs + 2), ...batches }),
      noHandleSignals: true,
      taskList: { note: (payload) => this.handled(payload) },
    });
  }

  async stop() {
    await this.runner.stop();
  }
}

await main(GraphileWorker);
