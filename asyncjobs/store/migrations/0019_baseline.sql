-- breaking: a job has tables of another shape than before the first release; functions stand in store/routines
--
-- Tables, types and indexes, in the order of a job's life. `asyncjobs.` stands for the schema's quoted name, which is put in when this
-- file is applied. How tables are stored and why an index is there stands beside each.

-- What rows are made of: time, ids, places, and how a row is refused
-- ==================================================================

-- The one place where SQL reads time. It says when the transaction began, for as long as that lasts: so what one call writes has one
-- time, and a plan may look for it in an index. A transaction of asyncjobs' own is one call, and its start is the call. It carries no SET
-- clause: with one it could not be inlined.
CREATE FUNCTION asyncjobs.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CURRENT_TIMESTAMP;

-- How a row is refused that cannot be: by an index that would get it, whose last column calls this. It does what a CHECK does, and names
-- itself like one, but the server reads a CHECK's text anew for each statement that writes to the table, and makes an index's column ready
-- only for a row that is in the index. A call that completes a job of a key and starts the next took 1.20 million instructions with
-- CHECKs, 0.82 without, 0.92 with indexes of their own for this.
CREATE FUNCTION asyncjobs.refuse_row(_check text, _id bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the row with id % violates %: none can be so', _id, _check USING ERRCODE = 'check_violation', CONSTRAINT = _check;
END $$;

-- What asyncjobs enqueues has a token. A row without one is a stranger's INSERT, which would only half work: this is what it gets for it.
CREATE FUNCTION asyncjobs.refuse_insert() RETURNS bigint LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'a job is not made by an INSERT of one''s own: nothing would wake a runner, take its dedup_key, or keep its key''s order'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'enqueued_check', HINT = 'Enqueue it with asyncjobs: `await handler.enqueue(...)` in Python, the function `enqueue` of this schema in SQL.';
END $$;

-- When something is to happen to a job that does not run: it is due, or it expires. Inlined, in `jobs_due` as in what asks that.
CREATE FUNCTION asyncjobs.due_at(_status text, _run_at timestamptz, _start_before timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN _status = ANY ('{scheduled,failed}'::text[]) THEN LEAST(_run_at, _start_before) ELSE _start_before END;

-- 0: it waits to be claimed; 1: whatever else. Inlined, in `jobs_claim_apart` as in what asks that.
CREATE FUNCTION asyncjobs.limit_side(_status text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE _status WHEN 'pending' THEN 0 ELSE 1 END;

CREATE SEQUENCE asyncjobs.jobs_id_seq AS bigint;

-- Places lie apart, so that the rows of a list have those that lead up to the one that it draws (`enqueue_alike`): to draw one took 2.2 of 46
-- thousand instructions a row. A list has no more rows than that.
CREATE SEQUENCE asyncjobs.place_seq AS bigint INCREMENT 1024 START 1024;

-- What proves that this database gave an id: see `enqueue_in_transaction`. No role needs to read it but the schema's owner.
CREATE TABLE asyncjobs.ids_secret (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    secret  text NOT NULL
);
INSERT INTO asyncjobs.ids_secret (secret)
SELECT pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text;

-- Jobs
-- ====

-- `on_dead`: what becomes of its key when the job dies. `ask` and `ask all`: it was enqueued through a stub, its handler says it when it
-- is claimed, and with `ask all` how many attempts there are, too (`fill_in`).
-- What has a fixed width and is never null comes first, then one text. Each write compares the old and the new value of every column that
-- an index names: of these both are where the server remembers them to be. What lies behind a null or a second text is walked to, column by
-- column, so what no index names comes last. From `attempts` to `started_at` is what a claim and an outcome change: of a row that stays on its
-- page the log has the span from the first byte that has changed to the last (with the queue and the type in it a job that runs took 45 bytes
-- more).
CREATE TABLE asyncjobs.jobs (
    id                  bigint PRIMARY KEY DEFAULT pg_catalog.nextval('asyncjobs.jobs_id_seq'),
    place               bigint NOT NULL DEFAULT pg_catalog.nextval('asyncjobs.place_seq'),
    snoozes             bigint NOT NULL DEFAULT 0,
    run_at              timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    scheduled_at        timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    created_at          timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    enqueue_token       bigint NOT NULL DEFAULT asyncjobs.refuse_insert(),
    version             integer NOT NULL DEFAULT 1,
    max_attempts        integer NOT NULL DEFAULT 3,
    rescues             integer NOT NULL DEFAULT 0,
    priority            smallint NOT NULL DEFAULT 100,
    losses              smallint NOT NULL DEFAULT 0,  -- these three: see routines/rescue. They lie where there would be padding.
    suspicion           smallint NOT NULL DEFAULT 0,
    outlived            smallint NOT NULL DEFAULT 0,
    attempts            integer NOT NULL DEFAULT 0,
    updated_at          timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    status              text NOT NULL DEFAULT 'pending',
    runner_id           bigint,
    completed_at        timestamptz,
    claim_token         bigint,
    started_at          timestamptz,
    queue               text NOT NULL DEFAULT 'default',
    type                text NOT NULL,
    lane                text,
    parent_job_id       bigint,
    correlation_id      text,
    start_before        timestamptz,                  -- when it expires: see routines/expiry
    limit_key           text COLLATE "C",             -- whose permits it needs to run: see routines/limits
    requested_outcome   text,
    on_dead             text NOT NULL DEFAULT 'advance',  -- from here on no index names a column
    payload             jsonb NOT NULL DEFAULT '{}',
    errors              jsonb NOT NULL DEFAULT '[]',
    timeout             interval,
    error_message       text,
    last_error          text,
    last_error_at       timestamptz,
    created_by          text,
    dedup_key           text,
    serialization_key   text,
    cancel_requested_at timestamptz,
    request_message     text,
    result              jsonb,
    result_dropped      text,
    progress            jsonb,
    requeued_from       bigint,
    trace_context       text,
    lost_with           bigint,
    tags                text[],  -- no index: a filter by tags looks at jobs, page by page, and a job without tags pays nothing
    dedup_until         text,                         -- 'start': the claim frees its dedup key, else its end does
    workflow_id         bigint,                       -- whose member it is: see routines/gates. Others pay for a test for null.
    keep_payload        boolean                       -- also when it has completed; null: as its type says then
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
ALTER SEQUENCE asyncjobs.jobs_id_seq OWNED BY asyncjobs.jobs.id;
-- Each index is opened by every statement that writes here, with its condition made ready: some 9 thousand instructions, and 1 for each
-- row. So what waits shares one: jobs behind others of their key, and jobs that operators hold back; and with them what cannot be, which its
-- last column refuses: a status that is none, what ended at no time, and what is processing and nobody's, which no rescue could ever pick
-- up. Lists are constants: as `IN (...)` a list is an expression, which is folded and evaluated anew. The terms of the condition are few, and
-- tests for null where one will do, since each is copied and made ready by each statement. What a row could be run with anyhow
-- (a negative priority, no attempts, another `on_dead`) is not refused: with terms for these, and the refusal in the condition, an enqueue took
-- 34 thousand instructions more (of 255), `finish_one` 70 (of 994). Tried: domains for what one column alone may be. Drains took 2 to 4 %
-- less, but a keyed row that is enqueued 7 % more.
-- Needed by the sweep (`look_at_keys`: who waits in no line), by `converge_pauses` (types that have paused jobs), and by what counts and
-- finds jobs that wait. A job that waits pays for an entry, one that does not for the condition.
CREATE INDEX jobs_rare ON asyncjobs.jobs (status, type, version, place,
    (CASE WHEN status = ANY ('{waiting,paused,blocked}'::text[]) THEN NULL ELSE asyncjobs.refuse_row('jobs_check', id) END))
WHERE status <> ALL ('{pending,processing,completed,scheduled,failed,dead,cancelled}'::text[])
    OR (completed_at IS NULL AND runner_id IS NULL AND status <> ALL ('{pending,scheduled,failed}'::text[]));
-- How it is stored: half of each page is left for a claim and an outcome to write their versions of a row next to it, where the room of the former is
-- found again without a vacuum. They can never be HOT updates: `status` is in the conditions of indexes. Measured, no vacuum, with a
-- payload of a kilobyte and with none: a job that ran took 2,777 and 496 bytes of the table and 815 and 798 of the log; at 85 %
-- 3,979 and 539, and 2,368 and 903; at 40 % 4,096 and 471, and 871 and 842. The price: one that only waits takes 2,731 and 373, at
-- 85 % 1,638 and 216.
-- The pages of the primary key are filled up all the same: at 50 % jobs that ran 10 a call took 5 % fewer instructions, and 50 a call 2 %,
-- but with 100,000 of them each look for one read a page more, and one that is enqueued took 13 bytes more of the log.
-- A vacuum is due after 2,000 and 2 % dead rows, analyze after 5 %, and neither pauses: a claim from the front walks what is dead
-- there (2,000: 0.2 ms and 58 pages; 12,000: 1 ms and 336; 100,000: 9 to 27 ms and 2,770; none: 0.02 ms and 3). With 500,000
-- finished rows that is 12,000; with the server's own 20 % it would be 100,000.
-- What a claim reads: the general scan, and one of suspects (at most one at a time in a runner), which are not in the former's way. Acks
-- never use it: they go by primary key. Each job pays for an entry when it becomes pending, in a lane for two. It has a number for each queue,
-- since what lies behind a text is walked to in each comparison: with the queue's name 1,000 rows of an enqueue took 53.5 million
-- instructions, and take 46.4 so, and a claim of one, which reads the rest of a page, 43 thousand less. A statement that asks for a queue
-- asks for its number, and for its name, which decides.
CREATE INDEX jobs_claim ON asyncjobs.jobs (pg_catalog.hashtext(queue), suspicion, priority, place) WHERE status = 'pending' AND limit_key IS NULL;
-- Jobs that a claim finds apart from others, in one index, since each job that is neither pays for the condition, and for an index that is
-- opened. Those of lanes: one scan per lane (side 0, without a limit key). Those of limits: the ones that wait for a permit, by whose turn it
-- is (side 0), and the ones that have one (side 1), which are the permits. So what is throttled is in the way of no other claim. A job with a
-- limit pays for an entry when it becomes pending and for one when it is claimed. A scan of a lane says that it is ordered by the limit key, too.
CREATE INDEX jobs_claim_apart ON asyncjobs.jobs (asyncjobs.limit_side(status), limit_key, queue, (coalesce(lane, '')), suspicion, priority, place)
WHERE (limit_key IS NOT NULL OR lane IS NOT NULL) AND (status = 'pending' OR (runner_id IS NOT NULL AND limit_key IS NOT NULL));
-- What `promote` reads: what is due, and what has expired while it waits; and when the next is. Only a job that is delayed, or failed, or
-- expires, pays for an entry; with an index of its own for what expires each statement would open one more.
CREATE INDEX jobs_due ON asyncjobs.jobs (asyncjobs.due_at(status, run_at, start_before))
WHERE status = ANY ('{scheduled,failed}'::text[]) OR (start_before IS NOT NULL AND status = ANY ('{waiting,pending,paused}'::text[]));
-- Acks clear runner_id, so this index holds what is in flight, and nothing else. A look for what was asked of a runner's jobs reads only
-- those of which something was: not even what is left of others in the index. (`orphans`, `give_back`, `requests`; an entry for each claim.)
CREATE INDEX jobs_runner ON asyncjobs.jobs (runner_id, requested_outcome) WHERE runner_id IS NOT NULL;
-- Traces, and the jobs that a job has enqueued. A job that has none pays for the condition, another for an entry with each version of its
-- row.
CREATE INDEX jobs_correlation ON asyncjobs.jobs (correlation_id, created_at) WHERE correlation_id IS NOT NULL;
CREATE INDEX jobs_parent ON asyncjobs.jobs (parent_job_id) WHERE parent_job_id IS NOT NULL;
-- What pruning looks for: ended jobs of each type in the order in which they ended, and dead letters that somebody has acknowledged.
-- The first costs an ack 75 bytes of WAL (794 instead of 719) and no time that can be measured: 144 and 141 us per job claimed and
-- acked in batches of 10, 67 and 69 us in batches of 50. With it 500,000 jobs are pruned in 17 s, in statements of 43 ms at most.
CREATE INDEX jobs_ended ON asyncjobs.jobs (type, completed_at) WHERE status IN ('completed', 'cancelled');

-- What an enqueue says of a job: the names are those of `model/new_row.py`. What is null is as it usually is.
CREATE TYPE asyncjobs.new_job AS (
    type text, queue text, lane text, version integer, payload text, priority integer, max_attempts integer, timeout_seconds float8,
    run_at timestamptz, delay_seconds float8, correlation_id text, parent_job_id bigint, created_by text, dedup_key text,
    dedup_for_seconds float8, on_duplicate text, serialization_key text, on_dead text, requeued_from bigint, trace_context text,
    notify boolean, tags text[], expires_seconds float8, dedup_until text, at_most_seconds float8, workflow_id bigint, waits boolean,
    limit_key text, keep_payload boolean);

-- Lines of keys
-- =============

-- What a job waits for that has a serialization key: its place in its key's line, and whether it is the head. The job itself is in `jobs`,
-- also while it waits. A row is here from when its job joins the line until what ends it lets the key go.
CREATE TABLE asyncjobs.serialized_jobs (
    id                bigint PRIMARY KEY,  -- the job's
    place             bigint,              -- null only inside the transaction that inserts it
    dispatched_at     timestamptz,         -- null: it waits behind others
    halted_at         timestamptz,
    serialization_key text NOT NULL,
    halt_reason       text
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
-- Vacuumed like `jobs`, but lines may be long, and a row is written to once before it is deleted.
-- Those that join their line at the commit (`join_keys`), and what cannot be. Others pay for its condition.
CREATE INDEX serialized_jobs_joining ON asyncjobs.serialized_jobs (id)
WHERE CASE WHEN serialization_key <> '' AND (halted_at IS NULL OR dispatched_at IS NOT NULL)
    THEN false ELSE asyncjobs.refuse_row('serialized_jobs_check', id) END OR place IS NULL;
-- The line of a key in its order: dispatch, sweep, and what shows lines. Each row pays for two entries, one more when it is dispatched.
CREATE INDEX serialized_jobs_line ON asyncjobs.serialized_jobs (serialization_key, place);
-- One dispatched job per key, whatever a process believes; and every look for the head of a key. An entry for each dispatch.
CREATE UNIQUE INDEX serialized_jobs_head ON asyncjobs.serialized_jobs (serialization_key) WHERE dispatched_at IS NOT NULL;

-- Keys whose head is to be dispatched by a serializer. No key is unique here: to find out would conflict with others.
CREATE TABLE asyncjobs.dispatch_requests (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    serialization_key text NOT NULL
);

-- Workflows
-- =========

-- The rules: routines/gates. A workflow's id is that of the gate of all its members, which has how many are missing.
CREATE TABLE asyncjobs.workflows (
    id                  bigint PRIMARY KEY,
    created_at          timestamptz NOT NULL,
    ended_at            timestamptz,
    cancel_requested_at timestamptz,
    parent_job_id       bigint,
    is_pruned           boolean NOT NULL DEFAULT false,  -- its members are being deleted
    name                text NOT NULL,
    correlation_id      text,
    created_by          text,
    cancel_message      text
) WITH (fillfactor = 80);
-- What the sweep and lists of open workflows read, and what pruning does. Each workflow pays for two entries.
CREATE INDEX workflows_open ON asyncjobs.workflows (id) WHERE ended_at IS NULL;
CREATE INDEX workflows_ended ON asyncjobs.workflows (ended_at) WHERE ended_at IS NOT NULL;

-- Written under the gate's lock alone; a count of what was folded. Half of each page is left, so that folds are HOT.
CREATE TABLE asyncjobs.gates (
    id          bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    workflow_id bigint NOT NULL,
    size        integer NOT NULL,
    missing     integer NOT NULL,               -- members that have not arrived
    dead        integer NOT NULL DEFAULT 0,     -- of those that have, and did not complete
    releasing   boolean NOT NULL DEFAULT false, -- it has not done with its dependents
    opened_at   timestamptz,
    dead_id     bigint,                         -- one of the dead, or who is to blame for its end
    name        text,
    CONSTRAINT gates_count_check CHECK (missing >= 0 AND dead >= 0)
) WITH (fillfactor = 50);
CREATE INDEX gates_workflow ON asyncjobs.gates (workflow_id);
CREATE INDEX gates_releasing ON asyncjobs.gates (id) WHERE releasing;

CREATE TABLE asyncjobs.members (
    job_id      bigint PRIMARY KEY,
    workflow_id bigint NOT NULL,
    number      bigint NOT NULL,    -- from 0, as they were added: results are named by it; what was spawned comes after all of these
    arrived     smallint,           -- null: it has not ended; 0: completed; 1: it was dead, cancelled or deleted
    broken_by   bigint,             -- the member whose end has ended this one
    gates       bigint[] NOT NULL,  -- where it arrives, but for its workflow's own
    spawned_by  bigint,             -- the member whose handler has added it, and its number among those
    spawn_number integer
) WITH (fillfactor = 50);  -- each is written to once more
CREATE UNIQUE INDEX members_number ON asyncjobs.members (workflow_id, number);
-- What finding by workflow reads, the highest id first, which need not have the highest number. An entry for each member. With the ids
-- as they are a plan reads the primary key from its end and sieves, where there are few workflows.
CREATE INDEX members_jobs ON asyncjobs.members (workflow_id, (-job_id));
CREATE UNIQUE INDEX members_spawned ON asyncjobs.members (spawned_by, spawn_number) WHERE spawned_by IS NOT NULL;

CREATE TABLE asyncjobs.dependents (
    gate_id bigint NOT NULL,
    job_id  bigint NOT NULL,
    rule    text NOT NULL CHECK (rule IN ('completed', 'ended')),
    state   text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'released', 'broken')),
    PRIMARY KEY (job_id, gate_id)
);
-- Of a gate with many each batch reads those that are left.
CREATE INDEX dependents_left ON asyncjobs.dependents (gate_id, state, job_id) WHERE state <> 'released';

-- What arrives at a gate: so many members, of which so many did not complete; `dead_id` is to blame for one of these.
CREATE TYPE asyncjobs.arrival AS (gate_id bigint, n integer, dead integer, dead_id bigint);

-- What arrived at a gate that was locked. Empty when all is well. Its number is drawn by chance: no sequence can be behind, and fail an ack.
CREATE TABLE asyncjobs.arrivals (
    gate_id bigint NOT NULL,
    number  uuid NOT NULL DEFAULT pg_catalog.gen_random_uuid(),
    dead_id bigint,
    n       integer NOT NULL,
    dead    integer NOT NULL,
    PRIMARY KEY (gate_id, number)
);

-- Dedup keys
-- ==========

-- A key is taken while its job is live, and until expires_at if that is later. Looked up by its primary key only, where dead rows cost
-- nothing, so the server's own settings do. So they do for `runners`, `background_job_leases` and `circuit_breakers`, whose updates
-- change no indexed column: of 2,000 beats of 50 runners 99.9 % were HOT, of 6,000 renewals of 12 leases all, and no page was added.
CREATE TABLE asyncjobs.dedup_keys (
    type       text NOT NULL,
    dedup_key  text NOT NULL,
    job_id     bigint NOT NULL,
    live       boolean NOT NULL DEFAULT true,
    expires_at timestamptz,
    PRIMARY KEY (type, dedup_key),
    CONSTRAINT dedup_keys_expiry_check CHECK (live OR expires_at IS NOT NULL)
);
CREATE INDEX dedup_keys_expired ON asyncjobs.dedup_keys (expires_at) WHERE NOT live;

-- What a caller's transaction replaces at its commit. Never holds a committed row.
CREATE TABLE asyncjobs.replacements (
    number            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id            bigint NOT NULL,
    serialization_key text NOT NULL,
    payload           text,              -- null: it is kept as it is
    version           integer NOT NULL,
    due_at            timestamptz NOT NULL,
    until_start       boolean NOT NULL,  -- if it has started by then, the transaction fails
    limit_key         text COLLATE "C"
);

-- Limits (routines/limits)
-- ========================

-- How many run at once, and how many start in a time: of a limit, or (only `total`) of a queue. What programs declare, and over it what an
-- operator has set by hand; the other columns are what follows. `is_full`: as many run as `total` allows, so its keys are not looked at.
CREATE TABLE asyncjobs.limits (
    kind        text NOT NULL CHECK (kind IN ('limit', 'queue')),
    name        text COLLATE "C" NOT NULL,
    declared    jsonb NOT NULL,
    by_hand     jsonb NOT NULL DEFAULT '{}',
    total       integer GENERATED ALWAYS AS (((declared || by_hand) ->> 'total')::integer) STORED,
    each        integer GENERATED ALWAYS AS (((declared || by_hand) ->> 'each')::integer) STORED,
    every       float8 GENERATED ALWAYS AS (((declared || by_hand) ->> 'every')::float8) STORED,  -- seconds from one start to the next
    burst       integer GENERATED ALWAYS AS (((declared || by_hand) ->> 'burst')::integer) STORED,
    weight      float8 GENERATED ALWAYS AS (coalesce(((declared || by_hand) ->> 'weight')::float8, 1)) STORED,
    is_full     boolean NOT NULL DEFAULT false,
    opened_at   timestamptz NOT NULL DEFAULT asyncjobs.clock(),  -- since when it is not full, if it is not
    declared_at timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    set_by      text,
    set_at      timestamptz,
    PRIMARY KEY (kind, name),
    CONSTRAINT limits_values_check CHECK (total > 0 AND each > 0 AND every > 0 AND burst > 0 AND weight > 0)
) WITH (fillfactor = 50);

-- The keys of limits: by their rows claims lock them. `tat`: when a rate's next start were due if all came evenly (GCRA).
CREATE TABLE asyncjobs.limit_keys (
    key            text COLLATE "C" PRIMARY KEY,
    tat            timestamptz NOT NULL DEFAULT '-infinity',
    closed_until   timestamptz,  -- a service said so (`Throttled`)
    closed_seconds float8,       -- for how long
    closed_by      bigint        -- to this job
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Where jobs of a key wait: whether it is worth while to look there, and whose turn it is. A queue with a total has a row without a key,
-- always open: so a claim learns of both by one look.
CREATE TABLE asyncjobs.limit_turns (
    key      text COLLATE "C" NOT NULL,
    queue    text NOT NULL,
    lane     text NOT NULL DEFAULT '',  -- '': none
    name     text COLLATE "C" NOT NULL,
    state    text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'full', 'closed', 'idle')),
    served   float8 NOT NULL DEFAULT 0,
    rested   boolean NOT NULL DEFAULT true,  -- it had nothing to do: it goes on from where the others are
    opens_at timestamptz,
    has_suspects boolean NOT NULL DEFAULT false,  -- perhaps: see routines/rescue
    turned_at timestamptz NOT NULL DEFAULT asyncjobs.clock(),  -- when it was opened, or a claim had it last: what waits there waits since then
    PRIMARY KEY (key, queue, lane)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- What a claim reads. An entry whenever a key is served.
CREATE INDEX limit_turns_open ON asyncjobs.limit_turns (queue, name, lane, served) WHERE state = 'open';
-- What time opens.
CREATE INDEX limit_turns_closed ON asyncjobs.limit_turns (opens_at) WHERE state = 'closed';
-- Hardly ever an entry.
CREATE INDEX limit_turns_suspects ON asyncjobs.limit_turns (queue, name, lane) WHERE has_suspects;

-- What is to be opened after the commit of the transaction that asks for it. No key is unique here: to find out would conflict with others.
CREATE TABLE asyncjobs.limit_requests (
    key      text COLLATE "C" NOT NULL,
    queue    text NOT NULL,
    lane     text NOT NULL,
    is_freed boolean NOT NULL,  -- a permit of the key was freed; else a job was added
    id       uuid PRIMARY KEY DEFAULT pg_catalog.gen_random_uuid()
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- The answer to a runner's call
-- =============================

-- A row of the answer to a runner's call, by `kind`:
--   'lost'  an outcome whose claim was not ours any more (id, token)
--   'head'  a job of `queue` became pending here and was not claimed here: that queue is to be notified
--   'gone'  the runner's own row is missing: it was declared dead, nothing was claimed
--   'job'   a claimed job, by scan (its number among the wants, from 1); 'member 7': one of workflow 7;
--           'limit api:7': one of that limit key; 'ask', 'ask all': one of a stub, by its `on_dead`
--   'due'   in so many seconds (`rest`) a limit's key opens that this call has closed
--   'expired'  what was ended since it had expired: ids and types in `rest` (routines/expiry)
-- A type with a name: the server looks it up once, and describes columns that a function declares anew in each call.
CREATE TYPE asyncjobs.answer AS (
    kind text, scan integer, queue text, id bigint, token bigint, type text, version integer, payload jsonb, priority smallint,
    place bigint, attempts integer, max_attempts integer, scheduled_epoch float8, run_epoch float8, started_epoch float8,
    created_epoch float8, serialization_key text, rest jsonb);

-- What an attempt made of its job, where it did not just complete. `refund` does not count the attempt; one that had begun (`unbegun` is
-- not true) counts all the same when its job ends at somebody's request. `progress`: how far it was, where that is not written yet.
CREATE TYPE asyncjobs.outcome AS (
    status text, delay float8, refund boolean, snooze boolean, dropped text, message text, error jsonb, unbegun boolean, progress jsonb,
    empties boolean);

-- Dead letters
-- ============

CREATE TABLE asyncjobs.dead_letter_jobs (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id          bigint NOT NULL,
    requeued_as     bigint,
    requeue_count   integer NOT NULL DEFAULT 0,
    original_job    jsonb NOT NULL,
    error_message   text,
    error_details   jsonb NOT NULL DEFAULT '{}',
    died_at         timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    acknowledged    boolean NOT NULL DEFAULT false,
    acknowledged_by text,
    acknowledged_at timestamptz
);
CREATE INDEX dead_letter_jobs_job ON asyncjobs.dead_letter_jobs (job_id);
-- By what dead letters are looked for. A death is rare enough to pay for these.
CREATE INDEX dead_letter_jobs_type ON asyncjobs.dead_letter_jobs ((original_job ->> 'type'), id);
CREATE INDEX dead_letter_jobs_key ON asyncjobs.dead_letter_jobs ((original_job ->> 'serialization_key'), id)
    WHERE original_job ->> 'serialization_key' IS NOT NULL;
CREATE INDEX dead_letter_jobs_correlation ON asyncjobs.dead_letter_jobs ((original_job ->> 'correlation_id'), id)
    WHERE original_job ->> 'correlation_id' IS NOT NULL;
CREATE INDEX dead_letter_jobs_open ON asyncjobs.dead_letter_jobs (died_at) WHERE NOT acknowledged;
CREATE INDEX dead_letter_jobs_acknowledged ON asyncjobs.dead_letter_jobs (acknowledged_at) WHERE acknowledged;

-- Runners, and the leases of their duties
-- =======================================

CREATE TABLE asyncjobs.runners (
    id         bigint PRIMARY KEY,
    beat       bigint NOT NULL DEFAULT 0,
    beat_at    timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    started_at timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    host       text NOT NULL,
    pid        integer NOT NULL,
    version    text NOT NULL,
    queues     text[] NOT NULL,
    types      text[] NOT NULL,
    versions   jsonb NOT NULL DEFAULT '{}',  -- type -> the newest payload it can run; a type that is not named: 1
    troubles   text[] NOT NULL DEFAULT '{}', -- as of the last beat: parts that were started again of late, in words
    stopped_at timestamptz,  -- since when it stops by itself: it serves nothing any more, and its end is no death
    -- Which duties a runner can do: a lease is handed over to one who can.
    duties text[] NOT NULL DEFAULT '{}',
    -- What a runner has room for: queue -> lane ('' for its general slots) -> slots.
    slots jsonb NOT NULL DEFAULT '{}',
    -- How many jobs a runner claims ahead: queue -> number. Queues that claim nothing ahead are not named.
    prefetch jsonb NOT NULL DEFAULT '{}',
    -- What it has in `types`, by digest.
    declares bigint[] NOT NULL DEFAULT '{}',
    name text,  -- what people call it
    -- The server's process of the session that beats, as of the last beat: its end is a hint. And where the runner's process is.
    session integer,
    machine text,
    serves bigint NOT NULL DEFAULT 0,  -- a digest of queues, slots, types and versions: runners with the same are peers
    limits  jsonb NOT NULL DEFAULT '[]'  -- what it declares of limits and of totals of queues
);

-- What runners declare of their job types when they open, for enqueues from SQL: what of a job is as its type says, and what fits. One
-- row for each definition of a name (a type's own, or a former one of it); which of them counts, and until when: routines/sql_door.
CREATE TABLE asyncjobs.types (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest            bigint NOT NULL UNIQUE,  -- of all but the time
    declared_at       timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    version           integer NOT NULL,
    priority          integer NOT NULL,
    max_attempts      integer NOT NULL,
    max_depth         integer NOT NULL,
    max_payload_bytes bigint NOT NULL,
    timeout_seconds   float8,                  -- infinite: none, whatever lane and app say
    app_timeout_seconds float8,                -- where neither type nor lane has one
    expires_seconds   float8,
    name              text NOT NULL,           -- by which it is enqueued
    type              text NOT NULL,           -- of its jobs
    queue             text NOT NULL,
    lane              text,
    breaker           text,                    -- the circuit breaker that its jobs are behind
    on_dead           text NOT NULL,
    serialize_by      jsonb,                   -- a list of texts and fields; "function": Python's; null: not at all
    dedup_by          jsonb,                   -- the same
    limit_name        text,                    -- of its limit
    limit_by          jsonb,                   -- how its jobs get their limit keys, as the two above; null: the limit has one key
    tags              text[] NOT NULL,
    redact            text[] NOT NULL,         -- fields of its payloads and results that nobody is shown
    schema            jsonb NOT NULL,          -- what a payload has to be: `payload_problem`
    sieve             jsonpath NOT NULL,       -- finds something in a payload that is not that
    queues            jsonb NOT NULL           -- of its program: queue -> lane -> timeout in seconds, or null
);
CREATE INDEX types_newest ON asyncjobs.types (name, version, id);

CREATE TABLE asyncjobs.former_runners (
    id         bigint PRIMARY KEY,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    died_at    timestamptz,
    stopped_at timestamptz,  -- since when it stopped by itself; null: it did not, it died
    host       text NOT NULL,
    pid        integer NOT NULL,
    version    text NOT NULL,
    queues     text[] NOT NULL,
    types      text[] NOT NULL,
    versions   jsonb NOT NULL DEFAULT '{}',
    blamed     bigint,  -- the job that killed it; 0: nobody knows; null: not asked yet
    duties text[] NOT NULL DEFAULT '{}',
    name text
);
CREATE INDEX former_runners_ended ON asyncjobs.former_runners (ended_at);

CREATE TABLE asyncjobs.background_job_leases (
    job_name          text PRIMARY KEY,
    held_by_worker_id text NOT NULL DEFAULT 'none',
    lease_acquired_at timestamptz,
    heartbeat_at      timestamptz,
    token             bigint NOT NULL DEFAULT 0,
    renewals          bigint NOT NULL DEFAULT 0,
    metadata          jsonb NOT NULL DEFAULT '{}'
);

-- Pauses
-- ======

CREATE TABLE asyncjobs.pauses (
    kind      text NOT NULL CHECK (kind IN ('queue', 'type', 'key', 'all')),  -- all: every queue there is or will be
    name      text NOT NULL,
    reason    text,
    paused_by text,
    paused_at timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    PRIMARY KEY (kind, name)
);

-- What asyncjobs itself made `paused` rows for: a type or a key that was paused, by whatever hand, and (`version` > 0) a type and version
-- that no runner served. Only such rows are made pending again by themselves: what an operator's UPDATE has set to `paused` stays.
CREATE TABLE asyncjobs.holds (
    kind     text NOT NULL CHECK (kind IN ('type', 'key', 'unserved')),
    name     text NOT NULL,
    version  integer NOT NULL DEFAULT 0,
    since    timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    ended_at timestamptz,  -- when it was first seen that nothing is paused any more; a row that was written to since is not held by it
    PRIMARY KEY (kind, name, version)
);

-- Schedules
-- =========

CREATE TABLE asyncjobs.schedules (
    name               text PRIMARY KEY,
    definition         jsonb NOT NULL,
    type               text GENERATED ALWAYS AS (definition #>> '{job,type}') STORED,
    queue              text GENERATED ALWAYS AS (definition #>> '{job,queue}') STORED,
    payload            jsonb GENERATED ALWAYS AS (definition #> '{job,payload}') STORED,
    serialization_key  text GENERATED ALWAYS AS (definition #>> '{job,serialization_key}') STORED,
    dedup_key          text GENERATED ALWAYS AS (definition #>> '{job,dedup_key}') STORED,
    cron               text GENERATED ALWAYS AS (definition #>> '{timing,cron}') STORED,
    every              interval GENERATED ALWAYS AS (pg_catalog.make_interval(secs => (definition #>> '{timing,every}')::float8)) STORED,
    timezone           text GENERATED ALWAYS AS (definition #>> '{timing,timezone}') STORED,
    misfire            text GENERATED ALWAYS AS (definition ->> 'misfire') STORED,
    overlap            text GENERATED ALWAYS AS (definition ->> 'overlap') STORED,
    last_tick          timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    unbroken_since     timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    spent              tstzmultirange NOT NULL DEFAULT '{}',
    last_job_id        bigint,
    enabled            boolean NOT NULL DEFAULT true,
    disabled_because   text CHECK (disabled_because IN ('operator', 'removed', 'failed')),
    disabled_reason    text,
    former_definitions jsonb[] NOT NULL DEFAULT '{}',
    created_at         timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    updated_at         timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    CONSTRAINT schedules_enabled_check CHECK (enabled = (disabled_because IS NULL))
) WITH (fillfactor = 50);  -- 60 schedules ticking together, 60 times: all HOT, 12 pages; at 70 % 97.6 %, 19; at 100 % 46 %, 183

CREATE TABLE asyncjobs.schedule_declarations (
    runner_id  bigint NOT NULL REFERENCES asyncjobs.runners (id) ON DELETE CASCADE,
    name       text NOT NULL,
    definition jsonb NOT NULL,
    PRIMARY KEY (runner_id, name)
);
CREATE INDEX schedule_declarations_name ON asyncjobs.schedule_declarations (name);

-- Circuit breakers
-- ================

CREATE TABLE asyncjobs.circuit_breakers (
    service_name    text PRIMARY KEY,
    state           text NOT NULL DEFAULT 'closed' CHECK (state IN ('closed', 'open', 'half-open')),
    reason          text,
    failure_count   integer NOT NULL DEFAULT 0,
    success_count   integer NOT NULL DEFAULT 0,
    last_failure_at timestamptz,
    opened_at       timestamptz,
    half_opens_at   timestamptz,
    half_opened_at  timestamptz,
    probe_tokens    bigint[] NOT NULL DEFAULT '{}',
    probes_lapse_at timestamptz[] NOT NULL DEFAULT '{}',
    version         bigint NOT NULL DEFAULT 0,
    updated_at      timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    CONSTRAINT circuit_breakers_probes_check CHECK (cardinality(probe_tokens) = cardinality(probes_lapse_at))
);

-- What is counted
-- ===============

-- `status` is what the attempt made of its job: completed, failed (it will be tried again), scheduled (snoozed), dead, cancelled. An
-- attempt that was interrupted and given back is none. In a histogram each number is a bucket, times 2^40, and how many are in it;
-- bucket n ends at 1.04^n microseconds. (As jsonb they took three times as long to add up: a page over 30 days reads 400,000 buckets.)
-- `minute` is when the span begins, in which the runner rolled the attempts up.
-- Full pages: 97.7 % of the updates of 100 rows that share a minute were HOT, at 70 % all, but rows are kept for months.
CREATE TABLE asyncjobs.job_metrics (
    job_type text NOT NULL,
    status text NOT NULL,
    minute timestamptz NOT NULL,
    span interval NOT NULL DEFAULT '1 minute',
    count bigint NOT NULL CHECK (count > 0),
    queue_seconds double precision NOT NULL,
    run_seconds double precision NOT NULL,
    queue_time bigint[] NOT NULL,
    run_time bigint[] NOT NULL,
    PRIMARY KEY (span, minute, job_type, status)
);

-- The roll-up of kinds of which there are very many: counting 200,000 takes 100 ms, which no page and no monitor should. Kinds of which
-- there are few are not in here, they are counted when somebody asks.
CREATE TABLE asyncjobs.job_depths (
    kind text NOT NULL,
    queue text NOT NULL,
    type text NOT NULL,
    version integer NOT NULL,
    status text NOT NULL,
    count bigint NOT NULL,
    oldest_at timestamptz NOT NULL,
    counted_at timestamptz NOT NULL,
    took interval NOT NULL,  -- to count all of them
    PRIMARY KEY (kind, queue, type, version, status)
);

-- The dashboard
-- =============

-- Sessions of the dashboard that were ended before their time: their cookies are signed, and would be taken until then.
CREATE TABLE asyncjobs.ended_sessions (
    session  text PRIMARY KEY,
    until_at timestamptz NOT NULL
);

-- What operators did
-- ==================

-- One row a verb: asyncjobs/model/audit.py has the rules. `by`: who; of SQL the role, and the program's name.
CREATE TABLE asyncjobs.audit (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    ended_at timestamptz,
    via      text NOT NULL CHECK (via IN ('python', 'cli', 'dashboard', 'sql')),
    by       text NOT NULL,
    verb     text NOT NULL,
    target   text NOT NULL,
    why      text,
    outcome  text  -- null: it has not come back
);
CREATE INDEX audit_at ON asyncjobs.audit (at);
