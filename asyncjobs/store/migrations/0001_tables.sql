-- Tables, sequences and indexes. `asyncjobs.` stands for the schema's quoted name, which is put in when this file is applied.

CREATE SEQUENCE asyncjobs.jobs_id_seq AS bigint;
CREATE SEQUENCE asyncjobs.place_seq AS bigint;

-- The one place where SQL reads time. It says when the transaction began, for as long as that lasts: so what one call writes has one
-- time, and a plan may look for it in an index. A transaction of asyncjobs' own is one call, and its start is the call. It carries no SET
-- clause: with one it could not be inlined.
CREATE FUNCTION asyncjobs.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    RETURN pg_catalog.now();

-- The same, at this moment, for what is done in a transaction of somebody else's, which may have begun long ago: an enqueue (what it has a
-- delay, a `dedup_for` or a time in the past counts from here, and so does whether others' dedup keys are over), what is left to its
-- commit, and `ctx.complete`. A call asks once, and hands on what it was told. Tests move `clock`, and this goes along.
CREATE FUNCTION asyncjobs.moment() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN asyncjobs.clock() + (pg_catalog.clock_timestamp() - pg_catalog.now());

-- Whose a row is that SQL itself enqueues: a random number, as programs draw for theirs.
CREATE FUNCTION asyncjobs.fresh_token() RETURNS bigint LANGUAGE sql VOLATILE
    RETURN ('x' || pg_catalog.left(pg_catalog.replace(pg_catalog.gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint;

-- How a row is refused that cannot be: by an index on such rows (and on some that can), whose expression asks this whether all is well. It
-- does what a CHECK does, and names itself like one, but the server reads a CHECK's text anew for each statement that writes to the
-- table, and an index's condition once for each connection. A call that completes a job of a key and starts the next took 1.20 million
-- instructions with CHECKs, 0.82 without, 0.92 with indexes of their own for this.
CREATE FUNCTION asyncjobs.refuse_unless(_is_well boolean, _check text, _id bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF _is_well THEN
        RETURN NULL;
    END IF;
    IF _check = 'enqueued_check' THEN
        RAISE EXCEPTION 'a job is not made by an INSERT of one''s own: nothing would wake a runner, take its dedup_key, or keep its key''s order'
            USING ERRCODE = 'check_violation', CONSTRAINT = _check, HINT = 'Enqueue it with asyncjobs: `await handler.enqueue(...)` in Python.';
    END IF;
    RAISE EXCEPTION 'the row with id % violates %: none can be so', _id, _check USING ERRCODE = 'check_violation', CONSTRAINT = _check;
END $$;

-- What proves that this database gave an id: see `enqueue_here`. No role needs to read it but the schema's owner.
CREATE TABLE asyncjobs.ids_secret (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    secret  text NOT NULL
);
INSERT INTO asyncjobs.ids_secret (secret)
SELECT pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text;

-- `on_dead`: what becomes of its key when the job dies. `ask` and `ask all`: it was enqueued through a stub, its handler says it when it
-- is claimed, and with `ask all` how many attempts there are, too (`fill_in`).
-- What has a fixed width and is never null comes first, then what is null in few of the rows that are written to. Each write compares
-- the old and the new value of every column that an index names, and what lies behind a text or a null is walked to, column by column:
-- of a drain by 50 that was an eighth of the server's instructions (170 thousand a job; 165 in this order).
CREATE TABLE asyncjobs.jobs (
    id                  bigint PRIMARY KEY DEFAULT pg_catalog.nextval('asyncjobs.jobs_id_seq'),
    place               bigint NOT NULL DEFAULT pg_catalog.nextval('asyncjobs.place_seq'),
    snoozes             bigint NOT NULL DEFAULT 0,
    run_at              timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    scheduled_at        timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    created_at          timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    updated_at          timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    version             integer NOT NULL DEFAULT 1,
    attempts            integer NOT NULL DEFAULT 0,
    max_attempts        integer NOT NULL DEFAULT 3,
    rescues             integer NOT NULL DEFAULT 0,
    priority            smallint NOT NULL DEFAULT 100,
    losses              smallint NOT NULL DEFAULT 0,  -- these three: see 0007_rescue.sql. They lie where there would be padding.
    suspicion           smallint NOT NULL DEFAULT 0,
    outlived            smallint NOT NULL DEFAULT 0,
    claim_token         bigint,
    started_at          timestamptz,
    runner_id           bigint,
    completed_at        timestamptz,
    status              text NOT NULL DEFAULT 'pending',
    queue               text NOT NULL DEFAULT 'default',
    on_dead             text NOT NULL DEFAULT 'advance',
    type                text NOT NULL,
    lane                text,
    payload             jsonb NOT NULL DEFAULT '{}',
    errors              jsonb NOT NULL DEFAULT '[]',
    parent_job_id       bigint,
    correlation_id      text,
    timeout             interval,
    error_message       text,
    last_error          text,
    last_error_at       timestamptz,
    created_by          text,
    dedup_key           text,
    serialization_key   text,
    cancel_requested_at timestamptz,
    requested_outcome   text,
    request_message     text,
    enqueue_token       bigint,
    result              jsonb,
    result_dropped      text,
    progress            jsonb,
    requeued_from       bigint,
    trace_context       text,
    lost_with           bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
ALTER SEQUENCE asyncjobs.jobs_id_seq OWNED BY asyncjobs.jobs.id;
-- Each index is opened by every statement that writes here, with its condition made ready: some 9 thousand instructions, and 1 for each
-- row. So what is rare shares one: delayed or retried jobs behind others of their key, jobs that operators hold back, and what cannot
-- be. A processing row is always someone's: without owner, token and start no rescue could ever pick it up. Lists are constants: as
-- `IN (...)` a list is an expression, which is folded and evaluated anew.
-- What asyncjobs enqueues has a token; a row without one is a stranger's INSERT, which would only half work, and is refused in words.
CREATE INDEX jobs_rare ON asyncjobs.jobs (status, type, version, place, asyncjobs.refuse_unless(
    status = ANY ('{waiting,paused}'::text[]) AND priority >= 0 AND attempts >= 0 AND max_attempts > 0
        AND on_dead = ANY ('{advance,halt,ask,ask all}'::text[]) AND enqueue_token IS NOT NULL,
    CASE WHEN enqueue_token IS NULL THEN 'enqueued_check' ELSE 'jobs_check' END, id))
WHERE status = ANY ('{waiting,paused}'::text[]) OR NOT (
    CASE WHEN status = 'processing' THEN runner_id IS NOT NULL AND claim_token IS NOT NULL AND started_at IS NOT NULL
         WHEN status = ANY ('{completed,dead,cancelled}'::text[]) THEN completed_at IS NOT NULL
         ELSE status = ANY ('{pending,scheduled,failed}'::text[]) END
    AND priority >= 0 AND attempts >= 0 AND max_attempts > 0 AND on_dead = ANY ('{advance,halt,ask,ask all}'::text[])
    AND enqueue_token IS NOT NULL);

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
-- What a claim reads: the general scan, one of suspects (at most one at a time in a runner), which are not in the former's way, and one
-- scan per lane. Acks never use them: they go by primary key.
CREATE INDEX jobs_claim ON asyncjobs.jobs (queue, suspicion, priority, place) WHERE status = 'pending';
CREATE INDEX jobs_claim_lane ON asyncjobs.jobs (queue, lane, priority, place) WHERE status = 'pending' AND lane IS NOT NULL;
CREATE INDEX jobs_due ON asyncjobs.jobs (run_at) WHERE status IN ('scheduled', 'failed');
-- Acks clear runner_id, so this index holds what is in flight, and nothing else. A look for what was asked of a runner's jobs reads only
-- those of which something was: not even what is left of others in the index.
CREATE INDEX jobs_runner ON asyncjobs.jobs (runner_id, requested_outcome) WHERE runner_id IS NOT NULL;
CREATE INDEX jobs_correlation ON asyncjobs.jobs (correlation_id, created_at) WHERE correlation_id IS NOT NULL;
CREATE INDEX jobs_parent ON asyncjobs.jobs (parent_job_id) WHERE parent_job_id IS NOT NULL;

CREATE TABLE asyncjobs.serialized_jobs (
    id                bigint PRIMARY KEY,
    place             bigint,
    serialization_key text NOT NULL,
    queue             text NOT NULL,
    lane              text,
    type              text NOT NULL,
    version           integer NOT NULL DEFAULT 1,
    payload           jsonb NOT NULL DEFAULT '{}',
    priority          smallint NOT NULL DEFAULT 100,
    max_attempts      integer NOT NULL DEFAULT 3,
    timeout           interval,
    scheduled_at      timestamptz NOT NULL DEFAULT asyncjobs.clock(),
    correlation_id    text,
    parent_job_id     bigint,
    created_by        text,
    dedup_key         text,
    on_dead           text NOT NULL DEFAULT 'advance',
    enqueue_token     bigint,
    requeued_from     bigint,
    trace_context     text,
    job_id            bigint,
    dispatched_at     timestamptz,
    halted_at         timestamptz,
    halt_reason       text,
    created_at        timestamptz NOT NULL DEFAULT asyncjobs.clock()
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
-- As for `jobs`, but lines may be long, and a row is written to once before it is deleted: a job took 1,840 bytes of the log, with full
-- pages 1,900, with half of them 1,791; a row that waits took 172 bytes, 145, and 285.
-- Those that join their line at the commit, and what cannot be.
CREATE INDEX serialized_jobs_joining ON asyncjobs.serialized_jobs (id, asyncjobs.refuse_unless(
    CASE WHEN job_id IS NULL THEN dispatched_at IS NULL AND halted_at IS NULL ELSE job_id = id AND dispatched_at IS NOT NULL END
    AND serialization_key <> '' AND enqueue_token IS NOT NULL,
    CASE WHEN enqueue_token IS NULL THEN 'enqueued_check' ELSE 'serialized_jobs_check' END, id))
WHERE place IS NULL OR NOT (
    CASE WHEN job_id IS NULL THEN dispatched_at IS NULL AND halted_at IS NULL ELSE job_id = id AND dispatched_at IS NOT NULL END
    AND serialization_key <> '' AND enqueue_token IS NOT NULL);
CREATE INDEX serialized_jobs_line ON asyncjobs.serialized_jobs (serialization_key, place);
-- One dispatched job per key, whatever a process believes.
CREATE UNIQUE INDEX serialized_jobs_head ON asyncjobs.serialized_jobs (serialization_key) WHERE job_id IS NOT NULL;

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
-- By what letters are looked for. A death is rare enough to pay for these.
CREATE INDEX dead_letter_jobs_type ON asyncjobs.dead_letter_jobs ((original_job ->> 'type'), id);
CREATE INDEX dead_letter_jobs_key ON asyncjobs.dead_letter_jobs ((original_job ->> 'serialization_key'), id)
    WHERE original_job ->> 'serialization_key' IS NOT NULL;
CREATE INDEX dead_letter_jobs_correlation ON asyncjobs.dead_letter_jobs ((original_job ->> 'correlation_id'), id)
    WHERE original_job ->> 'correlation_id' IS NOT NULL;
CREATE INDEX dead_letter_jobs_open ON asyncjobs.dead_letter_jobs (died_at) WHERE NOT acknowledged;

-- Whether a runner with these `versions` can run a job of this type and payload version. No SET clause, so that it is inlined.
CREATE FUNCTION asyncjobs.can_run(_versions jsonb, _type text, _version integer) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN _version = 1 OR _version <= COALESCE((_versions ->> _type)::integer, 1);

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
    stopped_at timestamptz  -- since when it stops by itself: it serves nothing any more, and its end is no death
);

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
    blamed     bigint  -- the job that killed it; 0: nobody knows; null: not asked yet
);
CREATE INDEX former_runners_ended ON asyncjobs.former_runners (ended_at);

CREATE TABLE asyncjobs.pauses (
    kind      text NOT NULL CHECK (kind IN ('queue', 'type', 'key')),
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

CREATE TABLE asyncjobs.background_job_leases (
    job_name          text PRIMARY KEY,
    held_by_worker_id text NOT NULL DEFAULT 'none',
    lease_acquired_at timestamptz,
    heartbeat_at      timestamptz,
    token             bigint NOT NULL DEFAULT 0,
    renewals          bigint NOT NULL DEFAULT 0,
    metadata          jsonb NOT NULL DEFAULT '{}'
);

-- Sequences that stand behind their rows, as after a switch-over to a copy that logical replication made: it copies rows, not sequences.
-- What is drawn then belongs to somebody else, or comes before what waits. Looks at the newest rows only, so `reached` is a place that
-- rows have, not the last of them. Rows with ids beyond 2^62 are a stranger's: no sequence goes there.
CREATE FUNCTION asyncjobs.sequences_behind() RETURNS TABLE (name text, sequence regclass, last_value bigint, reached bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _most CONSTANT bigint := 4611686018427387904;
    _found record;
BEGIN
    FOR _found IN
        SELECT 'asyncjobs.jobs_id_seq'::regclass AS sequence, greatest(
            (SELECT max(j.id) FROM asyncjobs.jobs AS j WHERE j.id < _most),
            (SELECT max(s.id) FROM asyncjobs.serialized_jobs AS s WHERE s.id < _most),
            (SELECT max(d.job_id) FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id < _most)) AS reached, NULL AS look
        UNION ALL
        SELECT 'asyncjobs.place_seq'::regclass, greatest(
            (SELECT n.place FROM (SELECT j.place FROM asyncjobs.jobs AS j WHERE j.id < _most ORDER BY j.id DESC LIMIT 1) AS n WHERE n.place < _most),
            (SELECT n.place FROM (SELECT s.place FROM asyncjobs.serialized_jobs AS s WHERE s.id < _most ORDER BY s.id DESC LIMIT 1) AS n
             WHERE n.place < _most)), NULL
        UNION ALL
        SELECT pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)::regclass, NULL,
            format('SELECT max(t.%1$I) FROM %2$s AS t WHERE t.%1$I < %3$s', a.attname, a.attrelid::regclass, _most)
        FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
        WHERE a.attidentity <> '' AND c.relnamespace = (SELECT o.relnamespace FROM pg_catalog.pg_class AS o WHERE o.oid = 'asyncjobs.jobs'::regclass)
    LOOP
        IF _found.look IS NOT NULL THEN
            EXECUTE _found.look INTO _found.reached;
        END IF;
        sequence := _found.sequence;
        name := (SELECT c.relname FROM pg_catalog.pg_class AS c WHERE c.oid = _found.sequence);
        reached := _found.reached;
        last_value := coalesce(pg_sequence_last_value(_found.sequence), 0);  -- after the rows: it only grows
        IF last_value < reached THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;

-- The last place that anything pending, or waiting in a line, has.
CREATE FUNCTION asyncjobs.last_place() RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_bitmapscan = off SET enable_sort = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN greatest(
        (SELECT max(s.place) FROM asyncjobs.serialized_jobs AS s WHERE s.place < 4611686018427387904),
        (WITH RECURSIVE groups AS (
            (SELECT j.queue, j.suspicion, j.priority FROM asyncjobs.jobs AS j
             WHERE j.status = 'pending' ORDER BY j.queue, j.suspicion, j.priority LIMIT 1)
            UNION ALL
            SELECT n.queue, n.suspicion, n.priority FROM groups AS g CROSS JOIN LATERAL (
                SELECT j.queue, j.suspicion, j.priority FROM asyncjobs.jobs AS j
                WHERE j.status = 'pending' AND (j.queue, j.suspicion, j.priority) > (g.queue, g.suspicion, g.priority)
                ORDER BY j.queue, j.suspicion, j.priority LIMIT 1) AS n)
        SELECT max(l.place) FROM groups AS g CROSS JOIN LATERAL (
            SELECT j.place FROM asyncjobs.jobs AS j
            WHERE j.status = 'pending' AND j.queue = g.queue AND j.suspicion = g.suspicion AND j.priority = g.priority
              AND j.place < 4611686018427387904
            ORDER BY j.place DESC LIMIT 1) AS l));
END $$;

-- Move every sequence on that stands behind its rows; returns those. `_surely`: look for the last place of all, not only for signs of it.
-- What others draw meanwhile may be drawn twice: ids are known by their tokens, places are looked at under the key's lock, and others are
-- drawn anew. To make that rare a sequence goes a little further than it has to.
CREATE FUNCTION asyncjobs.move_sequences(_surely boolean DEFAULT true) RETURNS TABLE (name text, was bigint, is_now bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _behind record;
    _place bigint;
BEGIN
    FOR _behind IN SELECT b.name, b.sequence, b.last_value, b.reached FROM asyncjobs.sequences_behind() AS b LOOP
        IF _behind.name = 'place_seq' THEN
            _surely := true;
            _place := _behind.reached;
        ELSE
            name := _behind.name;
            was := _behind.last_value;
            is_now := setval(_behind.sequence, _behind.reached + 1000);
            RETURN NEXT;
        END IF;
    END LOOP;
    IF _surely THEN
        _place := greatest(asyncjobs.last_place(), _place);
        was := coalesce(pg_sequence_last_value('asyncjobs.place_seq'::regclass), 0);
        IF was < _place THEN
            name := 'place_seq';
            is_now := setval('asyncjobs.place_seq', _place + 1000);
            RETURN NEXT;
        END IF;
    END IF;
END $$;

-- See to it that places which are drawn from now on come after those of these keys' lines. The keys are locked.
CREATE FUNCTION asyncjobs.check_places(_keys text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _last bigint := pg_sequence_last_value('asyncjobs.place_seq'::regclass);
BEGIN
    IF EXISTS (SELECT FROM unnest(_keys) AS k(key) CROSS JOIN LATERAL (
        SELECT FROM asyncjobs.serialized_jobs AS s
        WHERE s.serialization_key = k.key AND s.place > coalesce(_last, 0) LIMIT 1) AS s) THEN
        PERFORM asyncjobs.move_sequences();
    END IF;
END $$;
