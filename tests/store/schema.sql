-- The schema as migrations and routines make it. Rewrite: python -m tests.support.snapshot > tests/store/schema.sql

CREATE SEQUENCE asyncjobs.jobs_id_seq AS bigint INCREMENT 1 CACHE 1;
CREATE SEQUENCE asyncjobs.place_seq AS bigint INCREMENT 1024 CACHE 1;

CREATE TYPE asyncjobs.answer AS (
    kind text,
    scan integer,
    queue text,
    id bigint,
    token bigint,
    type text,
    version integer,
    payload jsonb,
    priority smallint,
    place bigint,
    attempts integer,
    max_attempts integer,
    scheduled_epoch double precision,
    run_epoch double precision,
    started_epoch double precision,
    created_epoch double precision,
    serialization_key text,
    rest jsonb
);

CREATE TYPE asyncjobs.arrival AS (
    gate_id bigint,
    n integer,
    dead integer,
    dead_id bigint
);

CREATE TYPE asyncjobs.new_job AS (
    type text,
    queue text,
    lane text,
    version integer,
    payload text,
    priority integer,
    max_attempts integer,
    timeout_seconds double precision,
    run_at timestamp with time zone,
    delay_seconds double precision,
    correlation_id text,
    parent_job_id bigint,
    created_by text,
    dedup_key text,
    dedup_for_seconds double precision,
    on_duplicate text,
    serialization_key text,
    on_dead text,
    requeued_from bigint,
    trace_context text,
    notify boolean,
    tags text[],
    expires_seconds double precision,
    dedup_until text,
    at_most_seconds double precision,
    workflow_id bigint,
    waits boolean,
    limit_key text,
    keep_payload boolean
);

CREATE TYPE asyncjobs.outcome AS (
    status text,
    delay double precision,
    refund boolean,
    snooze boolean,
    dropped text,
    message text,
    error jsonb,
    unbegun boolean,
    progress jsonb,
    empties boolean
);

CREATE TABLE asyncjobs.arrivals (
    gate_id bigint NOT NULL,
    number uuid DEFAULT gen_random_uuid() NOT NULL,
    dead_id bigint,
    n integer NOT NULL,
    dead integer NOT NULL,
    CONSTRAINT arrivals_pkey PRIMARY KEY (gate_id, number)
);

CREATE TABLE asyncjobs.audit (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    ended_at timestamp with time zone,
    via text NOT NULL,
    by text NOT NULL,
    verb text NOT NULL,
    target text NOT NULL,
    why text,
    outcome text,
    CONSTRAINT audit_via_check CHECK ((via = ANY (ARRAY['python'::text, 'cli'::text, 'dashboard'::text, 'sql'::text]))),
    CONSTRAINT audit_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_at ON asyncjobs.audit USING btree (at);
CREATE TRIGGER audit_by_hand AFTER DELETE OR UPDATE OR TRUNCATE ON asyncjobs.audit FOR EACH STATEMENT WHEN ((current_setting('search_path'::text) <> 'pg_catalog, pg_temp'::text)) EXECUTE FUNCTION asyncjobs.note_by_hand();

CREATE TABLE asyncjobs.background_job_leases (
    job_name text NOT NULL,
    held_by_worker_id text DEFAULT 'none'::text NOT NULL,
    lease_acquired_at timestamp with time zone,
    heartbeat_at timestamp with time zone,
    token bigint DEFAULT 0 NOT NULL,
    renewals bigint DEFAULT 0 NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT background_job_leases_pkey PRIMARY KEY (job_name)
);

CREATE TABLE asyncjobs.circuit_breakers (
    service_name text NOT NULL,
    state text DEFAULT 'closed'::text NOT NULL,
    reason text,
    failure_count integer DEFAULT 0 NOT NULL,
    success_count integer DEFAULT 0 NOT NULL,
    last_failure_at timestamp with time zone,
    opened_at timestamp with time zone,
    half_opens_at timestamp with time zone,
    half_opened_at timestamp with time zone,
    probe_tokens bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    probes_lapse_at timestamp with time zone[] DEFAULT '{}'::timestamp with time zone[] NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    updated_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    CONSTRAINT circuit_breakers_probes_check CHECK ((cardinality(probe_tokens) = cardinality(probes_lapse_at))),
    CONSTRAINT circuit_breakers_state_check CHECK ((state = ANY (ARRAY['closed'::text, 'open'::text, 'half-open'::text]))),
    CONSTRAINT circuit_breakers_pkey PRIMARY KEY (service_name)
);
CREATE TRIGGER circuit_breakers_by_hand AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE ON asyncjobs.circuit_breakers FOR EACH STATEMENT WHEN ((current_setting('search_path'::text) <> 'pg_catalog, pg_temp'::text)) EXECUTE FUNCTION asyncjobs.note_by_hand();

CREATE TABLE asyncjobs.dead_letter_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    job_id bigint NOT NULL,
    requeued_as bigint,
    requeue_count integer DEFAULT 0 NOT NULL,
    original_job jsonb NOT NULL,
    error_message text,
    error_details jsonb DEFAULT '{}'::jsonb NOT NULL,
    died_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    acknowledged boolean DEFAULT false NOT NULL,
    acknowledged_by text,
    acknowledged_at timestamp with time zone,
    CONSTRAINT dead_letter_jobs_pkey PRIMARY KEY (id)
);
CREATE INDEX dead_letter_jobs_acknowledged ON asyncjobs.dead_letter_jobs USING btree (acknowledged_at) WHERE acknowledged;
CREATE INDEX dead_letter_jobs_correlation ON asyncjobs.dead_letter_jobs USING btree (((original_job ->> 'correlation_id'::text)), id) WHERE ((original_job ->> 'correlation_id'::text) IS NOT NULL);
CREATE INDEX dead_letter_jobs_job ON asyncjobs.dead_letter_jobs USING btree (job_id);
CREATE INDEX dead_letter_jobs_key ON asyncjobs.dead_letter_jobs USING btree (((original_job ->> 'serialization_key'::text)), id) WHERE ((original_job ->> 'serialization_key'::text) IS NOT NULL);
CREATE INDEX dead_letter_jobs_open ON asyncjobs.dead_letter_jobs USING btree (died_at) WHERE (NOT acknowledged);
CREATE INDEX dead_letter_jobs_type ON asyncjobs.dead_letter_jobs USING btree (((original_job ->> 'type'::text)), id);
CREATE TRIGGER dead_letter_jobs_by_hand AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE ON asyncjobs.dead_letter_jobs FOR EACH STATEMENT WHEN ((current_setting('search_path'::text) <> 'pg_catalog, pg_temp'::text)) EXECUTE FUNCTION asyncjobs.note_by_hand();

CREATE TABLE asyncjobs.dedup_keys (
    type text NOT NULL,
    dedup_key text NOT NULL,
    job_id bigint NOT NULL,
    live boolean DEFAULT true NOT NULL,
    expires_at timestamp with time zone,
    CONSTRAINT dedup_keys_expiry_check CHECK ((live OR (expires_at IS NOT NULL))),
    CONSTRAINT dedup_keys_pkey PRIMARY KEY (type, dedup_key)
);
CREATE INDEX dedup_keys_expired ON asyncjobs.dedup_keys USING btree (expires_at) WHERE (NOT live);

CREATE TABLE asyncjobs.dependents (
    gate_id bigint NOT NULL,
    job_id bigint NOT NULL,
    rule text NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    CONSTRAINT dependents_rule_check CHECK ((rule = ANY (ARRAY['completed'::text, 'ended'::text]))),
    CONSTRAINT dependents_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'released'::text, 'broken'::text]))),
    CONSTRAINT dependents_pkey PRIMARY KEY (job_id, gate_id)
);
CREATE INDEX dependents_left ON asyncjobs.dependents USING btree (gate_id, state, job_id) WHERE (state <> 'released'::text);

CREATE TABLE asyncjobs.dispatch_requests (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    serialization_key text NOT NULL,
    CONSTRAINT dispatch_requests_pkey PRIMARY KEY (id)
);

CREATE TABLE asyncjobs.ended_sessions (
    session text NOT NULL,
    until_at timestamp with time zone NOT NULL,
    CONSTRAINT ended_sessions_pkey PRIMARY KEY (session)
);

CREATE TABLE asyncjobs.former_runners (
    id bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    died_at timestamp with time zone,
    stopped_at timestamp with time zone,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    types text[] NOT NULL,
    versions jsonb DEFAULT '{}'::jsonb NOT NULL,
    blamed bigint,
    duties text[] DEFAULT '{}'::text[] NOT NULL,
    name text,
    CONSTRAINT former_runners_pkey PRIMARY KEY (id)
);
CREATE INDEX former_runners_ended ON asyncjobs.former_runners USING btree (ended_at);

CREATE TABLE asyncjobs.gates (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    workflow_id bigint NOT NULL,
    size integer NOT NULL,
    missing integer NOT NULL,
    dead integer DEFAULT 0 NOT NULL,
    releasing boolean DEFAULT false NOT NULL,
    opened_at timestamp with time zone,
    dead_id bigint,
    name text,
    CONSTRAINT gates_count_check CHECK (((missing >= 0) AND (dead >= 0))),
    CONSTRAINT gates_pkey PRIMARY KEY (id)
) WITH (fillfactor=50);
CREATE INDEX gates_releasing ON asyncjobs.gates USING btree (id) WHERE releasing;
CREATE INDEX gates_workflow ON asyncjobs.gates USING btree (workflow_id);

CREATE TABLE asyncjobs.holds (
    kind text NOT NULL,
    name text NOT NULL,
    version integer DEFAULT 0 NOT NULL,
    since timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT holds_kind_check CHECK ((kind = ANY (ARRAY['type'::text, 'key'::text, 'unserved'::text]))),
    CONSTRAINT holds_pkey PRIMARY KEY (kind, name, version)
);

CREATE TABLE asyncjobs.ids_secret (
    is_only boolean DEFAULT true NOT NULL,
    secret text NOT NULL,
    CONSTRAINT ids_secret_is_only_check CHECK (is_only),
    CONSTRAINT ids_secret_pkey PRIMARY KEY (is_only)
);

CREATE TABLE asyncjobs.job_depths (
    kind text NOT NULL,
    queue text NOT NULL,
    type text NOT NULL,
    version integer NOT NULL,
    status text NOT NULL,
    count bigint NOT NULL,
    oldest_at timestamp with time zone NOT NULL,
    counted_at timestamp with time zone NOT NULL,
    took interval NOT NULL,
    CONSTRAINT job_depths_pkey PRIMARY KEY (kind, queue, type, version, status)
);

CREATE TABLE asyncjobs.job_metrics (
    job_type text NOT NULL,
    status text NOT NULL,
    minute timestamp with time zone NOT NULL,
    span interval DEFAULT '00:01:00'::interval NOT NULL,
    count bigint NOT NULL,
    queue_seconds double precision NOT NULL,
    run_seconds double precision NOT NULL,
    queue_time bigint[] NOT NULL,
    run_time bigint[] NOT NULL,
    CONSTRAINT job_metrics_count_check CHECK ((count > 0)),
    CONSTRAINT job_metrics_pkey PRIMARY KEY (span, minute, job_type, status)
);

CREATE TABLE asyncjobs.jobs (
    id bigint DEFAULT nextval('asyncjobs.jobs_id_seq'::regclass) NOT NULL,
    place bigint DEFAULT nextval('asyncjobs.place_seq'::regclass) NOT NULL,
    snoozes bigint DEFAULT 0 NOT NULL,
    run_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    scheduled_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    created_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    enqueue_token bigint DEFAULT asyncjobs.refuse_insert() NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    max_attempts integer DEFAULT 3 NOT NULL,
    rescues integer DEFAULT 0 NOT NULL,
    priority smallint DEFAULT 100 NOT NULL,
    losses smallint DEFAULT 0 NOT NULL,
    suspicion smallint DEFAULT 0 NOT NULL,
    outlived smallint DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    updated_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL,
    runner_id bigint,
    completed_at timestamp with time zone,
    claim_token bigint,
    started_at timestamp with time zone,
    queue text DEFAULT 'default'::text NOT NULL,
    type text NOT NULL,
    lane text,
    parent_job_id bigint,
    correlation_id text,
    start_before timestamp with time zone,
    limit_key text,
    requested_outcome text,
    on_dead text DEFAULT 'advance'::text NOT NULL,
    payload jsonb DEFAULT '{}'::jsonb NOT NULL,
    errors jsonb DEFAULT '[]'::jsonb NOT NULL,
    timeout interval,
    error_message text,
    last_error text,
    last_error_at timestamp with time zone,
    created_by text,
    dedup_key text,
    serialization_key text,
    cancel_requested_at timestamp with time zone,
    request_message text,
    result jsonb,
    result_dropped text,
    progress jsonb,
    requeued_from bigint,
    trace_context text,
    lost_with bigint,
    tags text[],
    dedup_until text,
    workflow_id bigint,
    keep_payload boolean,
    CONSTRAINT jobs_pkey PRIMARY KEY (id)
) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=2000, autovacuum_analyze_scale_factor=0.05, autovacuum_vacuum_cost_delay=0);
CREATE INDEX jobs_claim ON asyncjobs.jobs USING btree (hashtext(queue), suspicion, priority, place) WHERE ((status = 'pending'::text) AND (limit_key IS NULL));
CREATE INDEX jobs_claim_apart ON asyncjobs.jobs USING btree (asyncjobs.limit_side(status), limit_key, queue, COALESCE(lane, ''::text), suspicion, priority, place) WHERE (((limit_key IS NOT NULL) OR (lane IS NOT NULL)) AND ((status = 'pending'::text) OR ((runner_id IS NOT NULL) AND (limit_key IS NOT NULL))));
CREATE INDEX jobs_correlation ON asyncjobs.jobs USING btree (correlation_id, created_at) WHERE (correlation_id IS NOT NULL);
CREATE INDEX jobs_due ON asyncjobs.jobs USING btree (asyncjobs.due_at(status, run_at, start_before)) WHERE ((status = ANY ('{scheduled,failed}'::text[])) OR ((start_before IS NOT NULL) AND (status = ANY ('{waiting,pending,paused}'::text[]))));
CREATE INDEX jobs_ended ON asyncjobs.jobs USING btree (type, completed_at) WHERE (status = ANY (ARRAY['completed'::text, 'cancelled'::text]));
CREATE INDEX jobs_parent ON asyncjobs.jobs USING btree (parent_job_id) WHERE (parent_job_id IS NOT NULL);
CREATE INDEX jobs_rare ON asyncjobs.jobs USING btree (status, type, version, place, (
CASE
    WHEN (status = ANY ('{waiting,paused,blocked}'::text[])) THEN NULL::boolean
    ELSE asyncjobs.refuse_row('jobs_check'::text, id)
END)) WHERE ((status <> ALL ('{pending,processing,completed,scheduled,failed,dead,cancelled}'::text[])) OR ((completed_at IS NULL) AND (runner_id IS NULL) AND (status <> ALL ('{pending,scheduled,failed}'::text[]))));
CREATE INDEX jobs_runner ON asyncjobs.jobs USING btree (runner_id, requested_outcome) WHERE (runner_id IS NOT NULL);

CREATE TABLE asyncjobs.limit_keys (
    key text NOT NULL,
    tat timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    closed_until timestamp with time zone,
    closed_seconds double precision,
    closed_by bigint,
    CONSTRAINT limit_keys_pkey PRIMARY KEY (key)
) WITH (fillfactor=70, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=2000, autovacuum_vacuum_cost_delay=0);

CREATE TABLE asyncjobs.limit_requests (
    key text NOT NULL,
    queue text NOT NULL,
    lane text NOT NULL,
    is_freed boolean NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    CONSTRAINT limit_requests_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=2000, autovacuum_vacuum_cost_delay=0);

CREATE TABLE asyncjobs.limit_turns (
    key text NOT NULL,
    queue text NOT NULL,
    lane text DEFAULT ''::text NOT NULL,
    name text NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    served double precision DEFAULT 0 NOT NULL,
    rested boolean DEFAULT true NOT NULL,
    opens_at timestamp with time zone,
    has_suspects boolean DEFAULT false NOT NULL,
    turned_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    CONSTRAINT limit_turns_state_check CHECK ((state = ANY (ARRAY['open'::text, 'full'::text, 'closed'::text, 'idle'::text]))),
    CONSTRAINT limit_turns_pkey PRIMARY KEY (key, queue, lane)
) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=2000, autovacuum_vacuum_cost_delay=0);
CREATE INDEX limit_turns_closed ON asyncjobs.limit_turns USING btree (opens_at) WHERE (state = 'closed'::text);
CREATE INDEX limit_turns_open ON asyncjobs.limit_turns USING btree (queue, name, lane, served) WHERE (state = 'open'::text);
CREATE INDEX limit_turns_suspects ON asyncjobs.limit_turns USING btree (queue, name, lane) WHERE has_suspects;

CREATE TABLE asyncjobs.limits (
    kind text NOT NULL,
    name text NOT NULL,
    declared jsonb NOT NULL,
    by_hand jsonb DEFAULT '{}'::jsonb NOT NULL,
    total integer DEFAULT (((declared || by_hand) ->> 'total'::text))::integer,
    each integer DEFAULT (((declared || by_hand) ->> 'each'::text))::integer,
    every double precision DEFAULT (((declared || by_hand) ->> 'every'::text))::double precision,
    burst integer DEFAULT (((declared || by_hand) ->> 'burst'::text))::integer,
    weight double precision DEFAULT COALESCE((((declared || by_hand) ->> 'weight'::text))::double precision, (1)::double precision),
    is_full boolean DEFAULT false NOT NULL,
    opened_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    declared_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    set_by text,
    set_at timestamp with time zone,
    CONSTRAINT limits_kind_check CHECK ((kind = ANY (ARRAY['limit'::text, 'queue'::text]))),
    CONSTRAINT limits_values_check CHECK (((total > 0) AND (each > 0) AND (every > (0)::double precision) AND (burst > 0) AND (weight > (0)::double precision))),
    CONSTRAINT limits_pkey PRIMARY KEY (kind, name)
) WITH (fillfactor=50);

CREATE TABLE asyncjobs.members (
    job_id bigint NOT NULL,
    workflow_id bigint NOT NULL,
    number bigint NOT NULL,
    arrived smallint,
    broken_by bigint,
    gates bigint[] NOT NULL,
    spawned_by bigint,
    spawn_number integer,
    CONSTRAINT members_pkey PRIMARY KEY (job_id)
) WITH (fillfactor=50);
CREATE INDEX members_jobs ON asyncjobs.members USING btree (workflow_id, ((- job_id)));
CREATE UNIQUE INDEX members_number ON asyncjobs.members USING btree (workflow_id, number);
CREATE UNIQUE INDEX members_spawned ON asyncjobs.members USING btree (spawned_by, spawn_number) WHERE (spawned_by IS NOT NULL);

CREATE TABLE asyncjobs.migrations (
    number integer NOT NULL,
    name text NOT NULL,
    breaking boolean NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT migrations_pkey PRIMARY KEY (number)
);

CREATE TABLE asyncjobs.pauses (
    kind text NOT NULL,
    name text NOT NULL,
    reason text,
    paused_by text,
    paused_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    CONSTRAINT pauses_kind_check CHECK ((kind = ANY (ARRAY['queue'::text, 'type'::text, 'key'::text, 'all'::text]))),
    CONSTRAINT pauses_pkey PRIMARY KEY (kind, name)
);
CREATE TRIGGER pauses_by_hand AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE ON asyncjobs.pauses FOR EACH STATEMENT WHEN ((current_setting('search_path'::text) <> 'pg_catalog, pg_temp'::text)) EXECUTE FUNCTION asyncjobs.note_by_hand();
CREATE TRIGGER pauses_note AFTER INSERT OR DELETE OR UPDATE ON asyncjobs.pauses FOR EACH ROW EXECUTE FUNCTION asyncjobs.note_pause();

CREATE TABLE asyncjobs.replacements (
    number bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    job_id bigint NOT NULL,
    serialization_key text NOT NULL,
    payload text,
    version integer NOT NULL,
    due_at timestamp with time zone NOT NULL,
    until_start boolean NOT NULL,
    limit_key text,
    CONSTRAINT replacements_pkey PRIMARY KEY (number)
);
CREATE CONSTRAINT TRIGGER replacements_apply AFTER INSERT ON asyncjobs.replacements DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION asyncjobs.apply_replacements();

CREATE TABLE asyncjobs.routines (
    name text NOT NULL,
    hash text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT routines_pkey PRIMARY KEY (name)
);

CREATE TABLE asyncjobs.runners (
    id bigint NOT NULL,
    beat bigint DEFAULT 0 NOT NULL,
    beat_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    started_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    types text[] NOT NULL,
    versions jsonb DEFAULT '{}'::jsonb NOT NULL,
    troubles text[] DEFAULT '{}'::text[] NOT NULL,
    stopped_at timestamp with time zone,
    duties text[] DEFAULT '{}'::text[] NOT NULL,
    slots jsonb DEFAULT '{}'::jsonb NOT NULL,
    prefetch jsonb DEFAULT '{}'::jsonb NOT NULL,
    declares bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    name text,
    session integer,
    machine text,
    serves bigint DEFAULT 0 NOT NULL,
    limits jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT runners_pkey PRIMARY KEY (id)
);

CREATE TABLE asyncjobs.schedule_declarations (
    runner_id bigint NOT NULL,
    name text NOT NULL,
    definition jsonb NOT NULL,
    CONSTRAINT schedule_declarations_runner_id_fkey FOREIGN KEY (runner_id) REFERENCES asyncjobs.runners(id) ON DELETE CASCADE,
    CONSTRAINT schedule_declarations_pkey PRIMARY KEY (runner_id, name)
);
CREATE INDEX schedule_declarations_name ON asyncjobs.schedule_declarations USING btree (name);

CREATE TABLE asyncjobs.schedules (
    name text NOT NULL,
    definition jsonb NOT NULL,
    type text DEFAULT (definition #>> '{job,type}'::text[]),
    queue text DEFAULT (definition #>> '{job,queue}'::text[]),
    payload jsonb DEFAULT (definition #> '{job,payload}'::text[]),
    serialization_key text DEFAULT (definition #>> '{job,serialization_key}'::text[]),
    dedup_key text DEFAULT (definition #>> '{job,dedup_key}'::text[]),
    cron text DEFAULT (definition #>> '{timing,cron}'::text[]),
    every interval DEFAULT make_interval(secs => ((definition #>> '{timing,every}'::text[]))::double precision),
    timezone text DEFAULT (definition #>> '{timing,timezone}'::text[]),
    misfire text DEFAULT (definition ->> 'misfire'::text),
    overlap text DEFAULT (definition ->> 'overlap'::text),
    last_tick timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    unbroken_since timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    spent tstzmultirange DEFAULT '{}'::tstzmultirange NOT NULL,
    last_job_id bigint,
    enabled boolean DEFAULT true NOT NULL,
    disabled_because text,
    disabled_reason text,
    former_definitions jsonb[] DEFAULT '{}'::jsonb[] NOT NULL,
    created_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    updated_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    CONSTRAINT schedules_disabled_because_check CHECK ((disabled_because = ANY (ARRAY['operator'::text, 'removed'::text, 'failed'::text]))),
    CONSTRAINT schedules_enabled_check CHECK ((enabled = (disabled_because IS NULL))),
    CONSTRAINT schedules_pkey PRIMARY KEY (name)
) WITH (fillfactor=50);
CREATE TRIGGER schedules_by_hand AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE ON asyncjobs.schedules FOR EACH STATEMENT WHEN ((current_setting('search_path'::text) <> 'pg_catalog, pg_temp'::text)) EXECUTE FUNCTION asyncjobs.note_by_hand();

CREATE TABLE asyncjobs.serialized_jobs (
    id bigint NOT NULL,
    place bigint,
    dispatched_at timestamp with time zone,
    halted_at timestamp with time zone,
    serialization_key text NOT NULL,
    halt_reason text,
    CONSTRAINT serialized_jobs_pkey PRIMARY KEY (id)
) WITH (fillfactor=85, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=2000, autovacuum_analyze_scale_factor=0.05, autovacuum_vacuum_cost_delay=0);
CREATE INDEX serialized_jobs_joining ON asyncjobs.serialized_jobs USING btree (id) WHERE (
CASE
    WHEN ((serialization_key <> ''::text) AND ((halted_at IS NULL) OR (dispatched_at IS NOT NULL))) THEN false
    ELSE asyncjobs.refuse_row('serialized_jobs_check'::text, id)
END OR (place IS NULL));
CREATE INDEX serialized_jobs_line ON asyncjobs.serialized_jobs USING btree (serialization_key, place);
CREATE UNIQUE INDEX serialized_jobs_head ON asyncjobs.serialized_jobs USING btree (serialization_key) WHERE (dispatched_at IS NOT NULL);
CREATE CONSTRAINT TRIGGER serialized_jobs_join AFTER INSERT ON asyncjobs.serialized_jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.place IS NULL)) EXECUTE FUNCTION asyncjobs.join_keys();

CREATE TABLE asyncjobs.types (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    digest bigint NOT NULL,
    declared_at timestamp with time zone DEFAULT asyncjobs.clock() NOT NULL,
    version integer NOT NULL,
    priority integer NOT NULL,
    max_attempts integer NOT NULL,
    max_depth integer NOT NULL,
    max_payload_bytes bigint NOT NULL,
    timeout_seconds double precision,
    app_timeout_seconds double precision,
    expires_seconds double precision,
    name text NOT NULL,
    type text NOT NULL,
    queue text NOT NULL,
    lane text,
    breaker text,
    on_dead text NOT NULL,
    serialize_by jsonb,
    dedup_by jsonb,
    limit_name text,
    limit_by jsonb,
    tags text[] NOT NULL,
    redact text[] NOT NULL,
    schema jsonb NOT NULL,
    sieve jsonpath NOT NULL,
    queues jsonb NOT NULL,
    CONSTRAINT types_pkey PRIMARY KEY (id),
    CONSTRAINT types_digest_key UNIQUE (digest)
);
CREATE INDEX types_newest ON asyncjobs.types USING btree (name, version, id);

CREATE TABLE asyncjobs.workflows (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    parent_job_id bigint,
    is_pruned boolean DEFAULT false NOT NULL,
    name text NOT NULL,
    correlation_id text,
    created_by text,
    cancel_message text,
    CONSTRAINT workflows_pkey PRIMARY KEY (id)
) WITH (fillfactor=80);
CREATE INDEX workflows_ended ON asyncjobs.workflows USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX workflows_open ON asyncjobs.workflows USING btree (id) WHERE (ended_at IS NULL);

CREATE VIEW asyncjobs.due_jobs AS
 SELECT id,
    status,
    serialization_key,
    start_before,
    asyncjobs.due_at(status, run_at, start_before) AS due_at
   FROM asyncjobs.jobs j
  WHERE ((status = ANY ('{scheduled,failed}'::text[])) OR ((start_before IS NOT NULL) AND (status = ANY ('{waiting,pending,paused}'::text[]))));

CREATE VIEW asyncjobs.job_queue_health AS
 SELECT u.type,
    u.status,
    count(1) AS count,
    min(u.since) AS oldest,
    avg(u.waited) AS average_wait
   FROM ( SELECT j.type,
            j.status,
            j.run_at AS since,
            (asyncjobs.clock() - j.run_at) AS waited
           FROM asyncjobs.jobs j
          WHERE ((j.status = 'pending'::text) AND (j.limit_key IS NULL))
        UNION ALL
         SELECT j.type,
            j.status,
            j.run_at,
            (asyncjobs.clock() - j.run_at)
           FROM asyncjobs.jobs j
          WHERE ((j.status = 'pending'::text) AND (j.limit_key IS NOT NULL))
        UNION ALL
         SELECT j.type,
            j.status,
            j.run_at,
            GREATEST((asyncjobs.clock() - j.run_at), '00:00:00'::interval) AS "greatest"
           FROM asyncjobs.jobs j
          WHERE (j.status = ANY (ARRAY['scheduled'::text, 'failed'::text]))
        UNION ALL
         SELECT j.type,
            j.status,
            j.started_at,
            (j.started_at - j.run_at)
           FROM asyncjobs.jobs j
          WHERE ((j.runner_id IS NOT NULL) AND (j.status = 'processing'::text))
        UNION ALL
         SELECT j.type,
            j.status,
            j.created_at,
            (asyncjobs.clock() - j.created_at)
           FROM asyncjobs.jobs j
          WHERE (j.status = 'waiting'::text)) u
  GROUP BY u.type, u.status
UNION ALL
 SELECT m.job_type AS type,
    m.status,
    (sum(m.count))::bigint AS count,
    min(m.minute) AS oldest,
    make_interval(secs => (sum(m.queue_seconds) / (sum(m.count))::double precision)) AS average_wait
   FROM asyncjobs.job_metrics m
  WHERE ((m.span = '00:01:00'::interval) AND (m.minute > (asyncjobs.clock() - '01:00:00'::interval)) AND (m.status = ANY (ARRAY['completed'::text, 'dead'::text, 'cancelled'::text])))
  GROUP BY m.job_type, m.status;

CREATE VIEW asyncjobs.live_jobs AS
 SELECT 'pending'::text AS kind,
    j.queue,
    j.type,
    j.version,
    j.status,
    j.run_at AS since
   FROM asyncjobs.jobs j
  WHERE ((j.status = 'pending'::text) AND (j.limit_key IS NULL))
UNION ALL
 SELECT 'pending'::text AS kind,
    j.queue,
    j.type,
    j.version,
    j.status,
    j.run_at AS since
   FROM asyncjobs.jobs j
  WHERE ((j.status = 'pending'::text) AND (j.limit_key IS NOT NULL))
UNION ALL
 SELECT 'due'::text AS kind,
    j.queue,
    j.type,
    j.version,
    j.status,
    j.run_at AS since
   FROM asyncjobs.jobs j
  WHERE (j.status = ANY (ARRAY['scheduled'::text, 'failed'::text]))
UNION ALL
 SELECT 'paused'::text AS kind,
    j.queue,
    j.type,
    j.version,
    j.status,
    j.created_at AS since
   FROM asyncjobs.jobs j
  WHERE (j.status = 'paused'::text)
UNION ALL
 SELECT 'processing'::text AS kind,
    j.queue,
    j.type,
    j.version,
    j.status,
    j.started_at AS since
   FROM asyncjobs.jobs j
  WHERE ((j.runner_id IS NOT NULL) AND (j.status = 'processing'::text))
UNION ALL
 SELECT 'waiting'::text AS kind,
    j.queue,
    j.type,
    j.version,
    j.status,
    j.created_at AS since
   FROM asyncjobs.jobs j
  WHERE (j.status = 'waiting'::text)
UNION ALL
 SELECT 'blocked'::text AS kind,
    j.queue,
    j.type,
    j.version,
    j.status,
    j.created_at AS since
   FROM asyncjobs.jobs j
  WHERE (j.status = 'blocked'::text);

CREATE VIEW asyncjobs.readable_jobs AS
 SELECT id,
    type,
    status,
    queue,
    lane,
    version,
    payload,
    priority,
    attempts,
    max_attempts,
    asyncjobs.span(timeout) AS timeout,
    snoozes,
    rescues,
    asyncjobs.instant(scheduled_at) AS scheduled_at,
    asyncjobs.instant(run_at) AS run_at,
    asyncjobs.instant(started_at) AS started_at,
    asyncjobs.instant(completed_at) AS completed_at,
    error_message,
    last_error,
    asyncjobs.instant(last_error_at) AS last_error_at,
    errors,
    correlation_id,
    parent_job_id,
    created_by,
    dedup_key,
    serialization_key,
    limit_key,
    result,
    result_dropped,
    progress,
    requeued_from,
    trace_context,
    COALESCE(tags, '{}'::text[]) AS tags,
    asyncjobs.instant(start_before) AS start_before,
    dedup_until,
    keep_payload,
    workflow_id,
    asyncjobs.instant(created_at) AS created_at,
    asyncjobs.instant(updated_at) AS updated_at
   FROM asyncjobs.jobs j;

CREATE FUNCTION asyncjobs.ack(_ids bigint[], _tokens bigint[], _outcomes text[], _results text[], _max_errors integer, _followers bigint[] DEFAULT NULL::bigint[], OUT written bigint[], OUT pending bigint[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 58b478fc5b78106f

CREATE FUNCTION asyncjobs.acknowledge_dead_letters(_ids bigint[], _by text)
    RETURNS TABLE(dead_letter_id bigint, job_id bigint, is_new boolean, acknowledged_by text, acknowledged_at timestamp with time zone)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '1s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 72bb17ecccac9525

CREATE FUNCTION asyncjobs.add_histograms(bigint[], bigint[])
    RETURNS bigint[]
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: d036d29f22f54d01

CREATE FUNCTION asyncjobs.add_metrics(_rows asyncjobs.job_metrics[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 54905e3e9df46d25

CREATE FUNCTION asyncjobs.add_to_limits(_ids bigint[], _own boolean)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 584c4230b1f4e2c6

CREATE FUNCTION asyncjobs.advance_keys(_keys text[], _requests bigint[], OUT heads bigint[], OUT queues text[], OUT blocked text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 925c4311397cf29d

CREATE FUNCTION asyncjobs.aged_levels(_queue text, _lane text, _ageing bigint, _limit integer, _types text[], _versions jsonb, _spent integer[], _picked tid[])
    RETURNS TABLE(priority integer, count integer, at timestamp with time zone)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9b604e7927cab76b

CREATE FUNCTION asyncjobs.announce(_rows asyncjobs.new_job[], _existing integer[], _now timestamp with time zone)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 57df503b3de75fd8

CREATE FUNCTION asyncjobs.answer_kind(_on_dead text, _workflow_id bigint, _limit_key text)
    RETURNS text
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.apply_limit(_kind text, _name text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 0404031699243f25

CREATE FUNCTION asyncjobs.apply_replacements()
    RETURNS trigger
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 5d567ba32ccda0a0

CREATE FUNCTION asyncjobs.are_all_limited(_queue text, _suspects boolean)
    RETURNS boolean
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 15a544a233c45f98

CREATE FUNCTION asyncjobs.arrive(_ids bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 63343c5c59356bf7

CREATE FUNCTION asyncjobs.arrive_completed(_ids bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: b9c444426e360c71

CREATE FUNCTION asyncjobs.as_declared(_name text, _type asyncjobs.types, _options jsonb)
    RETURNS asyncjobs.new_job
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8abc0d9362caf172

CREATE FUNCTION asyncjobs.as_members(_who text, _rows asyncjobs.new_job[], _workflow bigint, _correlation text)
    RETURNS asyncjobs.new_job[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 508569d31ad80b00

CREATE FUNCTION asyncjobs.beat_with_leases(_runner bigint, _held text[], _tokens bigint[], _reports jsonb, _served text[], _new_tokens bigint[], _may_take boolean, _tried text[], _tried_tokens bigint[], _tried_renewals bigint[], _tried_long boolean[], _expiry interval, _fresh interval, _troubles text[], _stops boolean, OUT beat bigint, OUT runners integer, OUT rank integer, OUT peers bigint[], OUT renewed text[], OUT lost text[], OUT acquired text[], OUT duties text[], OUT tokens bigint[], OUT renewals bigint[], OUT ages double precision[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: a964494a8cd00f52

CREATE FUNCTION asyncjobs.begin_verb(_via text, _by text, _verb text, _target text, _why text)
    RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: ef7291164bcef99d

CREATE FUNCTION asyncjobs.blame(_runners bigint[])
    RETURNS TABLE(runner_id bigint, job_id bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: ac42d773c69928d4

CREATE FUNCTION asyncjobs.break_dependents(_ids bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 1c3001ceb2bbbf88

CREATE FUNCTION asyncjobs.breaker_after(_b asyncjobs.circuit_breakers, _event text, _token bigint, _seconds double precision, _reason text, _failure_threshold integer, _success_threshold integer, _probes integer, _open_seconds double precision)
    RETURNS asyncjobs.circuit_breakers
    LANGUAGE plpgsql
    STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 67e1c5e493a828be

CREATE FUNCTION asyncjobs.breaker_entered(_was asyncjobs.circuit_breakers, _is asyncjobs.circuit_breakers)
    RETURNS asyncjobs.circuit_breakers
    LANGUAGE plpgsql
    STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: dd298cb2aaa1eb6a

CREATE FUNCTION asyncjobs.bury(_ids bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: cc248dca124018b8

CREATE FUNCTION asyncjobs.can_run(_versions jsonb, _type text, _version integer)
    RETURNS boolean
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.change_job(_id bigint, _changes jsonb, OUT outcome text, OUT was text, OUT queues text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '1s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: cd142046bdf0980c

CREATE FUNCTION asyncjobs.channel()
    RETURNS text
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.check_fields(_who text, _document jsonb, _fields text[], _list text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 36858e465e2ec723

CREATE FUNCTION asyncjobs.check_head(_key text, _id bigint)
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: c42ed20f9bbcfd92

CREATE FUNCTION asyncjobs.check_payload(_name text, _type asyncjobs.types, _payload jsonb, _which text)
    RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 1230dc1dd2788718

CREATE FUNCTION asyncjobs.check_places(_keys text[])
    RETURNS void
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 70b1da49882f1449

CREATE FUNCTION asyncjobs.check_together(_row asyncjobs.new_job, _options jsonb, _has_dedup_rule boolean)
    RETURNS asyncjobs.new_job
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8e458891d26a9457

CREATE FUNCTION asyncjobs.claim(_runner bigint, _queue text, _lane text, _limit integer, _from_priority integer, _from_place bigint, _types text[], _suspects boolean, _token_base bigint, _token_seq bigint, _versions jsonb DEFAULT '{}'::jsonb, _scan integer DEFAULT NULL::integer, _slots integer DEFAULT NULL::integer, _ahead integer DEFAULT 0)
    RETURNS SETOF asyncjobs.answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8efd4ccb6142fb4b

CREATE FUNCTION asyncjobs.claim_followers(_runner bigint, _queue text, _heads bigint[], _limit integer, _types text[], _versions jsonb, _scan integer, _token_base bigint, _token_seq bigint)
    RETURNS SETOF asyncjobs.answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: c14cada3598ac865

CREATE FUNCTION asyncjobs.claim_released(_ids bigint[], _runner bigint, _queue text, _limit integer, _priority integer, _place bigint, _types text[], _token_base bigint, _token_seq bigint, _versions jsonb)
    RETURNS SETOF asyncjobs.answer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: b255c9e1dee34ac8

CREATE FUNCTION asyncjobs.claim_scans(_runner bigint, _versions jsonb, _queues text[], _lanes text[], _limits integer[], _slots integer[], _priorities integer[], _places bigint[], _types text[], _suspects boolean[], _token_base bigint, _token_seq bigint, _probes jsonb, _ahead integer[] DEFAULT NULL::integer[])
    RETURNS SETOF asyncjobs.answer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 3f5395b57491dfab

CREATE FUNCTION asyncjobs.claimed(_kind text, _scan integer, _j asyncjobs.jobs)
    RETURNS asyncjobs.answer
    LANGUAGE sql
-- body: SQL

CREATE FUNCTION asyncjobs.claims_under_way()
    RETURNS text[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: deeaab09b0ee971d

CREATE FUNCTION asyncjobs.clear_breakers()
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 3027c80ad3e23b33

CREATE FUNCTION asyncjobs.clear_suspects(_blamed bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: de3ea17839beb238

CREATE FUNCTION asyncjobs.clock()
    RETURNS timestamp with time zone
    LANGUAGE sql
    STABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.complete_in_transaction(_id bigint, _token bigint, _result text, _dropped text, _progress text DEFAULT NULL::text, _empties boolean DEFAULT false)
    RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 080842b8247ccb11

CREATE FUNCTION asyncjobs.converge_pauses(_batch integer, _window integer, _grace interval, OUT held integer, OUT resumed integer, OUT queues text[], OUT more boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8b1e9bcd38675acd

CREATE FUNCTION asyncjobs.count_arrivals(_ours bigint[], _came asyncjobs.arrival[], _leaves boolean)
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 04c4c571af7a35c3

CREATE FUNCTION asyncjobs.count_depths(_duty text, _holder text, _token bigint, _most integer)
    RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 7b07564db0b9df8e

CREATE FUNCTION asyncjobs.declare_breakers(_services text[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 6b753c286ef27d5e

CREATE FUNCTION asyncjobs.declare_limits(_limits jsonb, _runner bigint DEFAULT NULL::bigint)
    RETURNS text[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: e15235a3a18a352e

CREATE FUNCTION asyncjobs.declare_schedule(_name text, _definition jsonb)
    RETURNS text
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 0edd62f7a1e96563

CREATE FUNCTION asyncjobs.declare_schedules(_runner bigint, _names text[], _definitions text[], OUT registered boolean, OUT added text[], OUT changed text[], OUT enabled text[], OUT removed text[], OUT differing text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 01f1ecb43c74b3d1

CREATE FUNCTION asyncjobs.declare_types(_types jsonb)
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 914fe1673a4c5cb7

CREATE FUNCTION asyncjobs.dedup_at_start(_id bigint, _key text)
    RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8df121846acd12ef

CREATE FUNCTION asyncjobs.delete_job(_id bigint, OUT outcome text, OUT was text)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '1s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: e4e98ded2d4b17ba

CREATE FUNCTION asyncjobs.delete_jobs(_ids bigint[])
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 47af27233b4a8fe1

CREATE FUNCTION asyncjobs.depths(_most integer)
    RETURNS TABLE(queue text, type text, status text, count bigint, oldest_at timestamp with time zone, unserved bigint, counted_at timestamp with time zone, is_partial boolean)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 2dac3061471453be

CREATE FUNCTION asyncjobs.disable_schedule(_name text, _because text, _reason text)
    RETURNS SETOF text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 85d4c75500a4edc8

CREATE FUNCTION asyncjobs.dispatch_keys(_keys text[], _after bigint[] DEFAULT NULL::bigint[])
    RETURNS TABLE(id bigint, serialization_key text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 07bfd23055ba96cf

CREATE FUNCTION asyncjobs.draw_again(INOUT ids bigint[], INOUT new bigint[], _tokens bigint[], _rows asyncjobs.new_job[], _existing integer[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 054a7bf586ace244

CREATE FUNCTION asyncjobs.drop_dedup_keys(_ids bigint[], _rows asyncjobs.new_job[])
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: be6a3b6d00980ef4

CREATE FUNCTION asyncjobs.due_at(_status text, _run_at timestamp with time zone, _start_before timestamp with time zone)
    RETURNS timestamp with time zone
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.enable_schedule(_name text)
    RETURNS SETOF text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 7d54d55994cf4c69

CREATE FUNCTION asyncjobs.end_dedup(_ids bigint[])
    RETURNS void
    LANGUAGE sql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: SQL

CREATE FUNCTION asyncjobs.end_holds()
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 85cda7770871bc10

CREATE FUNCTION asyncjobs.end_idle(_ids bigint[], _status text, _message text, _max_errors integer, OUT ended jsonb, OUT queues text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8d92d22cda368edb

CREATE FUNCTION asyncjobs.end_job(_id bigint, _request text, _message text, _max_errors integer, OUT outcome text, OUT was text, OUT queues text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '1s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 6152942e6fe5ef70

CREATE FUNCTION asyncjobs.end_jobs(_ids bigint[], _request text, _message text, _max_errors integer)
    RETURNS TABLE(id bigint, outcome text, was text, queues text[])
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '1s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 484269d931e28d81

CREATE FUNCTION asyncjobs.end_verb(_id bigint, _outcome text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 87e80a118fa5a1eb

CREATE FUNCTION asyncjobs.end_waiting(_ids bigint[], _status text, _message text, _max_errors integer)
    RETURNS jsonb
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: bfa8013bb5c7bfdb

CREATE FUNCTION asyncjobs.enqueue(type text, payload jsonb DEFAULT '{}'::jsonb, options jsonb DEFAULT '{}'::jsonb)
    RETURNS bigint
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 0383ee775262813b

CREATE FUNCTION asyncjobs.enqueue_in_transaction(_rows text, _channel text, _ids bigint[] DEFAULT NULL::bigint[], _proofs bigint[] DEFAULT NULL::bigint[], _own boolean DEFAULT false, _again boolean DEFAULT false, _lock_timeout text DEFAULT NULL::text, OUT ids bigint[], OUT existing integer[], OUT did text[], OUT refused integer[], OUT statuses text[], OUT taken integer[], OUT later integer[])
    RETURNS record
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9e73a272fccfe83e

CREATE FUNCTION asyncjobs.enqueue_many(type text, payloads jsonb, options jsonb DEFAULT '{}'::jsonb)
    RETURNS bigint[]
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 0ec34fd5bd3f3e6e

CREATE FUNCTION asyncjobs.enqueue_members(_flow text, _documents text[], _channel text, _ids bigint[] DEFAULT NULL::bigint[], _proofs bigint[] DEFAULT NULL::bigint[], _tokens bigint[] DEFAULT NULL::bigint[], _own boolean DEFAULT false, _again boolean DEFAULT false, _lock_timeout text DEFAULT NULL::text, OUT id bigint, OUT ids bigint[], OUT refused integer[], OUT statuses text[], OUT later integer[])
    RETURNS record
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 7838c1c3487109d3

CREATE FUNCTION asyncjobs.enqueue_payloads(_name text, _payloads jsonb[], _options jsonb)
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: aa3465b73ee50d9f

CREATE FUNCTION asyncjobs.enqueue_rows(_ids bigint[], _tokens bigint[], _rows asyncjobs.new_job[], _own boolean, _again boolean, _reserve integer, _lock_timeout text DEFAULT NULL::text, _now timestamp with time zone DEFAULT NULL::timestamp with time zone, OUT ids bigint[], OUT existing integer[], OUT did text[], OUT refused integer[], OUT statuses text[], OUT taken integer[], OUT reserved bigint[], OUT later integer[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: cd853507da847437

CREATE FUNCTION asyncjobs.enqueue_scheduled(_job jsonb, _name text, _ticks timestamp with time zone[], OUT ids bigint[], OUT created boolean[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 6ce51415123b4855

CREATE FUNCTION asyncjobs.enqueue_workflow(workflow jsonb)
    RETURNS bigint
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 971c99400fafcc56

CREATE FUNCTION asyncjobs.epoch(_at timestamp with time zone)
    RETURNS double precision
    LANGUAGE sql
    STABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.error_kind(_message text)
    RETURNS text
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.expire_pending(_scan integer, _queue text, _lane text, _from_priority integer, _from_place bigint, _types text[], _suspects boolean, _versions jsonb)
    RETURNS asyncjobs.answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: c7ba6f52512008d8

CREATE FUNCTION asyncjobs.fail_each(_ids bigint[], _runners bigint[], _blamed bigint[], _max_errors integer, OUT failed bigint[], OUT pending bigint[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: fcb4a87b20c0e475

CREATE FUNCTION asyncjobs.fail_lost(_ids bigint[], _runners bigint[], _blamed bigint[], _max_errors integer)
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: d599ec577c972cbf

CREATE FUNCTION asyncjobs.fill_in(_ids bigint[], _tokens bigint[], _max_attempts integer[], _timeouts double precision[], _priorities integer[], _on_deads text[])
    RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 652c3ac0b8f12f63

CREATE FUNCTION asyncjobs.find_dead_letters(_before bigint, _limit integer, _look integer, _type text, _queue text, _key text, _correlation_id text, _error text, _died_after timestamp with time zone, _died_before timestamp with time zone, _acknowledged boolean, _error_kind text, OUT ids bigint[], OUT looked integer, OUT next bigint)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 74d21818e5598ccb

CREATE FUNCTION asyncjobs.find_jobs(_before bigint, _limit integer, _look integer, _walk boolean, _correlation_id text, _type text, _statuses text[], _queue text, _key text, _parent bigint, _payload jsonb, _error text, _tags text[], _dedup_key text, _limit_key text, _priority integer, _ids bigint[], _created_after timestamp with time zone, _created_before timestamp with time zone, _since timestamp with time zone, _until timestamp with time zone, _workflow bigint, OUT ids bigint[], OUT statuses text[], OUT looked integer, OUT next bigint)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: a176c146e51f38a3

CREATE FUNCTION asyncjobs.finish(_runner bigint, _ids bigint[], _tokens bigint[], _outcomes text[], _results text[], _max_errors integer, _scan_queues text[], _scan_lanes text[], _scan_limits integer[], _scan_slots integer[], _scan_priorities integer[], _scan_places bigint[], _types text[], _suspects boolean[], _token_base bigint, _token_seq bigint, _probes text, _followers text DEFAULT NULL::text, _ahead text DEFAULT NULL::text)
    RETURNS SETOF asyncjobs.answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '100ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: db83b89685f67922

CREATE FUNCTION asyncjobs.finish_completed(_runner bigint, _ids bigint[], _tokens bigint[], _results text[], _dropped text[], _queue text, _limit integer, _slots integer, _from_priority integer, _from_place bigint, _types text[], _suspects boolean, _token_base bigint, _token_seq bigint, _followers bigint[] DEFAULT NULL::bigint[], _ahead integer DEFAULT 0)
    RETURNS SETOF asyncjobs.answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '100ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9c5b4ee7d45a637f

CREATE FUNCTION asyncjobs.finish_one(_runner bigint, _id bigint, _token bigint, _result text, _dropped text, _queue text, _types text[], _next_token bigint)
    RETURNS SETOF asyncjobs.answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET lock_timeout TO '100ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9f1698705804d713

CREATE FUNCTION asyncjobs.finish_orphan(_id bigint)
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 5057dea0222aef8e

CREATE FUNCTION asyncjobs.finish_orphans(_ids bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: e1214b6c93659c6f

CREATE FUNCTION asyncjobs.fold_gates(_came asyncjobs.arrival[], _leaves boolean DEFAULT false)
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 30e5869db122560d

CREATE FUNCTION asyncjobs.fold_left_over(_limit integer, _aside bigint[] DEFAULT '{}'::bigint[], _only bigint[] DEFAULT NULL::bigint[], OUT gates integer, OUT queues text[], OUT more boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: a628adc3f160954d

CREATE FUNCTION asyncjobs.fold_limits(_batch integer, OUT queues text[], OUT next_seconds double precision)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: a2f1fc7a7587f60e

CREATE FUNCTION asyncjobs.fold_metrics(_duty text, _holder text, _token bigint, _minutes interval, _hours interval, _quarters interval, _days interval, OUT held boolean, OUT folded integer, OUT deleted integer, OUT more boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 94ee50c25d7b6bdb

CREATE FUNCTION asyncjobs.fold_oldest(_from interval, _to interval, _before timestamp with time zone)
    RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: dee998d1fbc58cd7

CREATE FUNCTION asyncjobs.forget_types(_declared bigint[] DEFAULT '{}'::bigint[])
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 3aa4890fa57c2d7c

CREATE FUNCTION asyncjobs.found_below(_found bigint[], _before bigint, _look integer)
    RETURNS bigint[]
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.free_permits(_freed text[], _keys text[], _queues text[], _lanes text[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: dde284689af8419c

CREATE FUNCTION asyncjobs.fresh_token()
    RETURNS bigint
    LANGUAGE sql
-- body: SQL

CREATE FUNCTION asyncjobs.give_back(_runner bigint, _running bigint[], _last_token bigint)
    RETURNS TABLE(id bigint, queue text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: a8495980addbffc1

CREATE FUNCTION asyncjobs.give_back_followers(_ids bigint[], _runners bigint[], _blamed bigint[], OUT others bigint[], OUT given_back bigint[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 365bf744fe7bccfb

CREATE FUNCTION asyncjobs.give_back_of_stopped(_ids bigint[], _max_errors integer, OUT others bigint[], OUT given_back bigint[], OUT pending bigint[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 107677285a27e892

CREATE FUNCTION asyncjobs.give_back_stopped(_id bigint, _max_errors integer)
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: bda5c898914fbe1a

CREATE FUNCTION asyncjobs.give_ids(_count integer, OUT ids bigint[], OUT proofs bigint[])
    RETURNS record
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 47f9f6d604f776e0

CREATE FUNCTION asyncjobs.go_on_releasing(_gates bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 3e77dd70fe17e74d

CREATE FUNCTION asyncjobs.happen_to_breaker(_service text, _event text, _token bigint, _seconds double precision, _reason text, _failure_threshold integer, _success_threshold integer, _probes integer, _open_seconds double precision)
    RETURNS TABLE(formerly text, state text, failure_count integer, success_count integer, last_failure_in double precision, half_opens_in double precision, probe_tokens bigint[], probes_lapse_in double precision[], version bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET lock_timeout TO '500ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 4761ec1c589de224

CREATE FUNCTION asyncjobs.has_left_over(_workflow bigint)
    RETURNS boolean
    LANGUAGE plpgsql
    STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: d8681b3d42b7a882

CREATE FUNCTION asyncjobs.has_work(_runner bigint, _queues jsonb, _types text[], _versions jsonb)
    RETURNS boolean
    LANGUAGE plpgsql
    STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8273a09b89b7bf3c

CREATE FUNCTION asyncjobs.having_status(_ids bigint[], _statuses text[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 7605507932ea3098

CREATE FUNCTION asyncjobs.heads(_ids bigint[])
    RETURNS SETOF asyncjobs.answer
    LANGUAGE sql
    STABLE
-- body: SQL

CREATE FUNCTION asyncjobs.hold_back(_batch integer, _window integer, _grace interval, _paused text[], _served text[], _versions jsonb)
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: caba033742297e1f

CREATE FUNCTION asyncjobs.hold_back_key(_key text)
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: c44287485ec72e1d

CREATE FUNCTION asyncjobs.hold_heads_back(_batch integer)
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: e40481257c8f3b5f

CREATE FUNCTION asyncjobs.hold_key(_key text)
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '200ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 128135954b0a9786

CREATE FUNCTION asyncjobs.hold_lease(_duty text, _holder text, _token bigint, _idle interval)
    RETURNS boolean
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 76ae4992125d1915

CREATE FUNCTION asyncjobs.in_flight(_runner bigint)
    RETURNS TABLE(id bigint, queue text, lane text, runner_id bigint, is_ahead boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8d42507d0969b97b

CREATE FUNCTION asyncjobs.instant(_at timestamp with time zone)
    RETURNS timestamp with time zone
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.is_completing(_id bigint)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 6f59517a4ab15e8a

CREATE FUNCTION asyncjobs.is_for(_queues jsonb, _queue text, _lane text)
    RETURNS boolean
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.is_limited_first(_queue text, _lane text, _types text[], _ageing bigint, _versions jsonb)
    RETURNS boolean
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8562cb0a52c06a99

CREATE FUNCTION asyncjobs.is_paused(_type text, _key text)
    RETURNS boolean
    LANGUAGE sql
    STABLE
-- body: SQL

CREATE FUNCTION asyncjobs.is_printable(_text text)
    RETURNS boolean
    LANGUAGE plpgsql
    IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 18edf8eee1b58a0e

CREATE FUNCTION asyncjobs.is_served(_queue text, _type text, _version integer)
    RETURNS boolean
    LANGUAGE sql
    STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9ba1509cdfa7f61d

CREATE FUNCTION asyncjobs.join_key(_id bigint, _ctid tid, _key text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: b8cfd2c6632c2284

CREATE FUNCTION asyncjobs.join_keys()
    RETURNS trigger
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 0ffc8f44bf89b51f

CREATE FUNCTION asyncjobs.join_line(_ids bigint[], _keys text[])
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: cc16360769496397

CREATE FUNCTION asyncjobs.json_kind(_value jsonb)
    RETURNS text
    LANGUAGE sql
    IMMUTABLE
-- body: SQL

CREATE FUNCTION asyncjobs.judge(_ids bigint[], _runners bigint[], _blamed bigint[])
    RETURNS TABLE(id bigint, attempts integer, losses integer, suspicion integer, lost_with bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: e36e3166c5361453

CREATE FUNCTION asyncjobs.keep_order(_ids bigint[], _tokens bigint[], _outcomes text[], _followers bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: f04b05e30770dcf8

CREATE FUNCTION asyncjobs.keep_quiet(_rows asyncjobs.new_job[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: c0b4d60c058c5377

CREATE FUNCTION asyncjobs.key_of(_name text, _option text, _template jsonb, _payload jsonb)
    RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 4a6c815677485fec

CREATE FUNCTION asyncjobs.key_opens_at(_k asyncjobs.limit_keys, _every double precision, _burst integer, _now timestamp with time zone)
    RETURNS timestamp with time zone
    LANGUAGE sql
    STABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.key_part(_name text, _what text, _part jsonb, _value jsonb)
    RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 4a52b5343d15e621

CREATE FUNCTION asyncjobs.key_problem(_key text, _at_most integer DEFAULT 255)
    RETURNS text
    LANGUAGE sql
    IMMUTABLE
-- body: SQL

CREATE FUNCTION asyncjobs.key_slots(_keys text[])
    RETURNS integer[]
    LANGUAGE sql
    IMMUTABLE
-- body: SQL

CREATE FUNCTION asyncjobs.kind_of(_value jsonb)
    RETURNS text
    LANGUAGE sql
    IMMUTABLE
-- body: SQL

CREATE FUNCTION asyncjobs.known_types()
    RETURNS text
    LANGUAGE sql
    STABLE
-- body: SQL

CREATE FUNCTION asyncjobs.last_place()
    RETURNS bigint
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 080f7d84f16ad50e

CREATE FUNCTION asyncjobs.later_rows(_rows asyncjobs.new_job[], _now timestamp with time zone)
    RETURNS integer[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 07f39c8a2157f8ae

CREATE FUNCTION asyncjobs.lease_report(_report jsonb, _now timestamp with time zone)
    RETURNS jsonb
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 75517027ed13ba90

CREATE FUNCTION asyncjobs.least_served(_queue text, _name text, _lane text, _without text[])
    RETURNS double precision
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 129dfc95c34de32c

CREATE FUNCTION asyncjobs.leave_arrivals(_came asyncjobs.arrival[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 5c69bbfffe52533d

CREATE FUNCTION asyncjobs.leave_runner(_runner bigint, _kept text[], _fresh interval, OUT successor bigint)
    RETURNS bigint
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: ab90cdac7d6ded59

CREATE FUNCTION asyncjobs.left_over_gates(_limit integer, _aside bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 34a4e692a3ff3e35

CREATE FUNCTION asyncjobs.let_dependents_go(_ids bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: f830bcf72adb7ef9

CREATE FUNCTION asyncjobs.let_go(_batch integer, _paused text[], _served text[], _versions jsonb, OUT resumed integer, OUT queues text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 236ff416798d0712

CREATE FUNCTION asyncjobs.let_keys_go(_ids bigint[], _dead bigint[] DEFAULT NULL::bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9fa765494e7b935b

CREATE FUNCTION asyncjobs.limit_groups(_queue text, _lane text, _names text[], _seen text[], _suspects boolean DEFAULT false)
    RETURNS TABLE(name text, lane text, served double precision)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 6d4cea720a04eb4d

CREATE FUNCTION asyncjobs.limit_name(_key text)
    RETURNS text
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.limit_room(_kind text, _name text, _most integer, _picked tid[] DEFAULT '{}'::tid[], _is_cut boolean DEFAULT false)
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 1c648369f6e16e60

CREATE FUNCTION asyncjobs.limit_side(_status text)
    RETURNS integer
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.limit_slots(_keys text[])
    RETURNS integer[]
    LANGUAGE sql
    IMMUTABLE
-- body: SQL

CREATE FUNCTION asyncjobs.limited_share(_queue text, _lane text, _limit integer, _slots integer, _types text[], _suspects boolean, _ageing bigint, _versions jsonb, OUT room integer, OUT slots integer, OUT is_first boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: afcef6eef9a40af9

CREATE FUNCTION asyncjobs.list_keys(_after text, _limit integer, _only text)
    RETURNS TABLE(key text, depth bigint, head_id bigint, head_type text, head_status text, head_since timestamp with time zone, oldest_at timestamp with time zone, halted_at timestamp with time zone, halt_reason text, paused_at timestamp with time zone, pause_reason text, runner_id bigint)
    LANGUAGE plpgsql
    STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8938d24b6f530127

CREATE FUNCTION asyncjobs.lock_in_order(_ids bigint[], _statuses text[], _keys text[])
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: cc97b814d3045316

CREATE FUNCTION asyncjobs.lock_joining()
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: af567964ede1af5d

CREATE FUNCTION asyncjobs.lock_keys(_keys text[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: c99ed3d007779fb2

CREATE FUNCTION asyncjobs.lock_keys_shortly(_keys text[])
    RETURNS void
    LANGUAGE plpgsql
    SET lock_timeout TO '50ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 37f8b3f80a18c66e

CREATE FUNCTION asyncjobs.lock_replaced(_ids bigint[], _keys text[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 888f4c12cd7b6c1d

CREATE FUNCTION asyncjobs.lock_turns(_queue text, _name text, _lane text, _most integer, _ahead double precision, _suspects boolean, _seen text[], OUT keys text[], OUT places tid[], OUT turns tid[], OUT ahead double precision)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 76a5bc1e80088b5a

CREATE FUNCTION asyncjobs.look_again(_keys text[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 22218ce575cc6b65

CREATE FUNCTION asyncjobs.look_at_breakers(_services text[])
    RETURNS TABLE(service_name text, state text, failure_count integer, success_count integer, last_failure_in double precision, half_opens_in double precision, probe_tokens bigint[], probes_lapse_in double precision[], version bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 4d9018b06f277ca8

CREATE FUNCTION asyncjobs.look_at_keys(_after text, _after_waiting jsonb, _limit integer, OUT stalled text[], OUT ended bigint[], OUT last text, OUT lost bigint[], OUT last_waiting jsonb)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 52a1c38a5d95e70b

CREATE FUNCTION asyncjobs.look_at_members(_workflow bigint, _number bigint, _limit integer, OUT ended bigint[], OUT last_workflow bigint, OUT last_number bigint, OUT cancelling bigint[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: c481261a13af4fa4

CREATE FUNCTION asyncjobs.look_at_owner(_type text, _key text, _id bigint, _until text, _now timestamp with time zone, OUT status text, OUT serialization_key text, OUT is_new boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: e4b6c5a02fa9682d

CREATE FUNCTION asyncjobs.look_at_runners(OUT ids bigint[], OUT beats bigint[], OUT machines text[], OUT pids integer[], OUT orphans boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 4920145c63ab825b

CREATE FUNCTION asyncjobs.look_at_schedules(_runner bigint, OUT now timestamp with time zone, OUT names text[], OUT last_ticks timestamp with time zone[], OUT failed text[], OUT led text[], OUT ahead text[], OUT declared bigint, OUT stale boolean)
    RETURNS record
    LANGUAGE plpgsql
    STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9f4f9ea18aa6d29c

CREATE FUNCTION asyncjobs.lost(_ids bigint[], _tokens bigint[], _written bigint[])
    RETURNS SETOF asyncjobs.answer
    LANGUAGE sql
    STABLE
-- body: SQL

CREATE FUNCTION asyncjobs.make_pending(_ids bigint[], OUT promoted integer, OUT queues text[], OUT urgent_queues text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 14227fed4027ddd1

CREATE FUNCTION asyncjobs.make_turns(_keys text[], _queues text[], _lanes text[])
    RETURNS text[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: d444e0c8d1264a3d

CREATE FUNCTION asyncjobs.mark_arrived(_ids bigint[])
    RETURNS asyncjobs.arrival[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 40c7eb981af8b4fb

CREATE FUNCTION asyncjobs.may_follow(_j asyncjobs.jobs, _queue text, _types text[], _versions jsonb)
    RETURNS boolean
    LANGUAGE sql
-- body: SQL

CREATE FUNCTION asyncjobs.may_notify()
    RETURNS boolean
    LANGUAGE sql
    STABLE
-- body: SQL

CREATE FUNCTION asyncjobs.may_start(_start_before timestamp with time zone)
    RETURNS boolean
    LANGUAGE sql
    PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.may_start_over(_id bigint, _was text, _type text, _dedup text, OUT outcome text, OUT other_id bigint)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 4f2991f61f474cf8

CREATE FUNCTION asyncjobs.meet_duplicates(_ids bigint[], _new bigint[], _rows asyncjobs.new_job[], _own boolean, _keys text[], _now timestamp with time zone, OUT ids bigint[], OUT new bigint[], OUT rows asyncjobs.new_job[], OUT existing integer[], OUT did text[], OUT refused integer[], OUT statuses text[])
    RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 08e45ea76bda8d84

CREATE FUNCTION asyncjobs.member_results(_id bigint, _ranges jsonb)
    RETURNS TABLE(number bigint, job_id bigint, type text, status text, result jsonb, result_dropped text)
    LANGUAGE plpgsql
    STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 5e76a90cdf65452d

CREATE FUNCTION asyncjobs.members_to_cancel(_workflow bigint, _limit integer)
    RETURNS bigint[]
    LANGUAGE plpgsql
    STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: e31f5493d9b855c1

CREATE FUNCTION asyncjobs.moment()
    RETURNS timestamp with time zone
    LANGUAGE sql
    PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.move_sequences(_surely boolean DEFAULT true)
    RETURNS TABLE(name text, was bigint, is_now bigint)
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 24eade7f1dd656f0

CREATE FUNCTION asyncjobs.named_step(_who text, _step jsonb, _known jsonb, _first integer, _last integer)
    RETURNS jsonb
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 38e12415fc7d52b1

CREATE FUNCTION asyncjobs.names_in(_object jsonb)
    RETURNS text
    LANGUAGE sql
    IMMUTABLE
-- body: SQL

CREATE FUNCTION asyncjobs.names_results(_value jsonb)
    RETURNS boolean
    LANGUAGE sql
    IMMUTABLE
-- body: SQL

CREATE FUNCTION asyncjobs.new_workflow_id()
    RETURNS bigint
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: b4f9096b82d0c25a

CREATE FUNCTION asyncjobs.newest_type(_name text)
    RETURNS asyncjobs.types
    LANGUAGE plpgsql
    STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 0f6ba49cd9fe8e17

CREATE FUNCTION asyncjobs.next_page(_ids bigint[], _limit integer, _seen bigint[], _look integer)
    RETURNS bigint
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.note_by_hand()
    RETURNS trigger
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 2e0de404903b63e0

CREATE FUNCTION asyncjobs.note_joining(_keys text[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 10ea629eebab31d8

CREATE FUNCTION asyncjobs.note_pause()
    RETURNS trigger
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 2b4d480563f33cf4

CREATE FUNCTION asyncjobs.note_releasing(_gates bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 54b0a0b96a922abd

CREATE FUNCTION asyncjobs.note_suspects(_keys text[])
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 117f5a33fcd013d2

CREATE FUNCTION asyncjobs.note_touched(_keys text[], _queue text, _lane text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 4535c17701f3a5d3

CREATE FUNCTION asyncjobs.note_verb(_deed jsonb, _outcome text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 60001c5c5f5631c2

CREATE FUNCTION asyncjobs.obey_requests(_ids bigint[], _uncounted bigint[], _max_errors integer, OUT dead bigint[], OUT ended_keyed bigint[], OUT ended_dedup bigint[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 6e7289f399f1b929

CREATE FUNCTION asyncjobs.open_key(_key text)
    RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '2s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 296d656b37699ad8

CREATE FUNCTION asyncjobs.open_limits(_ids bigint[], _freed boolean)
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 99fe6f7553416d7e

CREATE FUNCTION asyncjobs.open_turns(_freed text[], _keys text[], _queues text[], _lanes text[], _states text[])
    RETURNS text[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: cfee51d61819ae32

CREATE FUNCTION asyncjobs.orphans(_limit integer)
    RETURNS TABLE(id bigint, runner_id bigint, claim_token bigint, status text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: c988d1a548a2764a

CREATE FUNCTION asyncjobs.outdated_types(_declared bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: f1a22f9b73758305

CREATE FUNCTION asyncjobs.outlive(_ids bigint[], _tokens bigint[], _outlived integer[], _cleared boolean[])
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 78b6792e00ded787

CREATE FUNCTION asyncjobs.own_trace(_id bigint)
    RETURNS text
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.pack_histogram(jsonb)
    RETURNS bigint[]
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: da89a30ffc71e5a4

CREATE FUNCTION asyncjobs.past_expired(_queue text, _lane text, _types text[], _versions jsonb, _most integer, INOUT _priority integer, INOUT _place bigint)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 27673510d97e31fd

CREATE FUNCTION asyncjobs.pause(_kind text, _name text, _reason text, _by text)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 7411ff119aa255ea

CREATE FUNCTION asyncjobs.payload_problem(_schema jsonb, _payload jsonb)
    RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 984a6e359a176502

CREATE FUNCTION asyncjobs.payload_rows(_name text, _payloads jsonb[], _options jsonb, _takes boolean)
    RETURNS asyncjobs.new_job[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 4c787471f9e6edd1

CREATE FUNCTION asyncjobs.pick_aged(_queue text, _lane text, _ageing bigint, _limit integer, _types text[], _versions jsonb)
    RETURNS tid[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: bede33cb5bf260a0

CREATE FUNCTION asyncjobs.pick_limited(_queue text, _lane text, _limit integer, _types text[], _suspects boolean, _versions jsonb, _is_cut boolean)
    RETURNS tid[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 3128faaa2ce7191a

CREATE FUNCTION asyncjobs.promote(_batch integer, _from timestamp with time zone, _blocked text[], _aside bigint[] DEFAULT NULL::bigint[], _only bigint[] DEFAULT NULL::bigint[], OUT promoted integer, OUT queues text[], OUT urgent_queues text[], OUT keys text[], OUT next_due_seconds double precision, OUT skipped boolean, OUT reached_at timestamp with time zone, OUT scan_seconds double precision, OUT expired jsonb, OUT opened text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 3c7adbe98c27a555

CREATE FUNCTION asyncjobs.promote_keyed(_keys text[], _batch integer, OUT promoted integer, OUT queues text[], OUT urgent_queues text[], OUT expired jsonb)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '50ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 6e7da5c95cdc911b

CREATE FUNCTION asyncjobs.proofs(_ids bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 55337c75adf33a3d

CREATE FUNCTION asyncjobs.prune(_duty text, _holder text, _token bigint, _batch integer, _completed interval, _cancelled interval, _dead_letters interval, _runners interval, _audit interval, _types text[], _keeps interval[], OUT held boolean, OUT jobs integer, OUT dead_letters integer, OUT runners integer, OUT dedup_keys integer, OUT audit integer, OUT more boolean, OUT failures text[])
    RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 76f43b609687fe95

CREATE FUNCTION asyncjobs.prune_audit(_batch integer, _audit interval)
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '50ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: f8cbdbd79729a6e7

CREATE FUNCTION asyncjobs.prune_dead_letters(_batch integer, _dead_letters interval, OUT jobs integer, OUT dead_letters integer)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '50ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: f13f86f17013f65b

CREATE FUNCTION asyncjobs.prune_dedup_keys(_batch integer)
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '50ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 766cd9059cefd992

CREATE FUNCTION asyncjobs.prune_jobs(_batch integer, _completed interval, _cancelled interval, _types text[], _keeps interval[], OUT jobs integer, OUT more boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '50ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 02cb4e524ea15c14

CREATE FUNCTION asyncjobs.prune_limit_keys(_batch integer)
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 5436f9e3eeb8dbe0

CREATE FUNCTION asyncjobs.prune_runners(_batch integer, _runners interval)
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '50ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 42c804bcee4525b6

CREATE FUNCTION asyncjobs.prune_workflows(_batch integer, _keep interval, OUT jobs integer, OUT more boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '50ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: ce673d222f572e5a

CREATE FUNCTION asyncjobs.purge_key(_key text, _message text, _limit integer, OUT cancelled bigint[], OUT head_id bigint)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '1s'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 688c3db1870a2cb9

CREATE FUNCTION asyncjobs.rate_base(_tat timestamp with time zone, _every double precision, _burst integer, _now timestamp with time zone)
    RETURNS timestamp with time zone
    LANGUAGE sql
    STABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.rate_permits(_k asyncjobs.limit_keys, _every double precision, _burst integer, _now timestamp with time zone)
    RETURNS integer
    LANGUAGE sql
    STABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.read_choice(_option text, _value jsonb, _choices text[])
    RETURNS text
    LANGUAGE plpgsql
    STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 1583adf866569a8c

CREATE FUNCTION asyncjobs.read_debounce(_value jsonb, OUT quiet double precision, OUT at_most double precision)
    RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: c3788702c7b08219

CREATE FUNCTION asyncjobs.read_flag(_option text, _value jsonb)
    RETURNS boolean
    LANGUAGE plpgsql
    STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8ed113df9fbb2f6b

CREATE FUNCTION asyncjobs.read_instant(_text text)
    RETURNS timestamp with time zone
    LANGUAGE plpgsql
    STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 900260da899ed472

CREATE FUNCTION asyncjobs.read_key(_option text, _value jsonb)
    RETURNS text
    LANGUAGE plpgsql
    STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 4ded02f51b455387

CREATE FUNCTION asyncjobs.read_name(_option text, _value jsonb)
    RETURNS text
    LANGUAGE plpgsql
    STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: a35064eb1f5bb8da

CREATE FUNCTION asyncjobs.read_number(_text text)
    RETURNS double precision
    LANGUAGE plpgsql
    STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 48ea11e3a8d3cda6

CREATE FUNCTION asyncjobs.read_options(_options jsonb, _has_dedup_rule boolean)
    RETURNS asyncjobs.new_job
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 5b747d8a2dbc09de

CREATE FUNCTION asyncjobs.read_rows(_documents text[])
    RETURNS asyncjobs.new_job[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9ff579e223cf7d5e

CREATE FUNCTION asyncjobs.read_run_at(_option text, _value jsonb)
    RETURNS timestamp with time zone
    LANGUAGE plpgsql
    STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 561c4756ebf13ded

CREATE FUNCTION asyncjobs.read_seconds(_option text, _value jsonb, _positive boolean)
    RETURNS double precision
    LANGUAGE plpgsql
    STRICT
    SET "IntervalStyle" TO 'postgres'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 2bb60fc49535048b

CREATE FUNCTION asyncjobs.read_tags(_option text, _value jsonb)
    RETURNS text[]
    LANGUAGE plpgsql
    STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 466c7cb3a4893921

CREATE FUNCTION asyncjobs.read_whole(_option text, _value jsonb, _least bigint, _most bigint, _note text DEFAULT ''::text)
    RETURNS bigint
    LANGUAGE plpgsql
    STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 8d5d4ea7b4e07b60

CREATE FUNCTION asyncjobs.reanchor_schedule(_name text, _last timestamp with time zone)
    RETURNS SETOF timestamp with time zone
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9a48bdb289b2da18

CREATE FUNCTION asyncjobs.record_metrics(_tallies jsonb)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: e4097452e68ef4a2

CREATE FUNCTION asyncjobs.refuse(_error text, _message text, _hint text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 368bef59264dabfc

CREATE FUNCTION asyncjobs.refuse_duplicate(_row asyncjobs.new_job, _id bigint, _status text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 275d2174a1665af9

CREATE FUNCTION asyncjobs.refuse_insert()
    RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 30dad60ecb91e46a

CREATE FUNCTION asyncjobs.refuse_row(_check text, _id bigint)
    RETURNS boolean
    LANGUAGE plpgsql
    IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9a8071b4d2a42a5e

CREATE FUNCTION asyncjobs.rejoin(_ids bigint[])
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: fb2e563d737adf6d

CREATE FUNCTION asyncjobs.release_dependents(_gates bigint[], _leaves boolean, OUT freed bigint[], OUT are_all boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 2a63794e94f4cb7b

CREATE FUNCTION asyncjobs.release_ended(_id bigint)
    RETURNS text[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '200ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 0134191147fcd8fe

CREATE FUNCTION asyncjobs.release_key(_key text, OUT halted_id bigint, OUT queues text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '1s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: b2edfd0e931f9f37

CREATE FUNCTION asyncjobs.release_leases(_runner bigint, _duties text[], _tokens bigint[], _reports jsonb, _fresh interval, OUT released text[], OUT successor bigint)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '1s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 5c89d2cc98f185c4

CREATE FUNCTION asyncjobs.renew_leases(_holder text, _held text[], _tokens bigint[], _reports jsonb, OUT renewed text[], OUT lost text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: f8a6191f56f84464

CREATE FUNCTION asyncjobs.replace_ended_job(_id bigint, _key text, _payload text, _version integer, _due_at timestamp with time zone, _limit_key text)
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: df1272acfc093b47

CREATE FUNCTION asyncjobs.replace_job(_id bigint, _key text, _payload text, _version integer, _due_at timestamp with time zone, _limit_key text)
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: a9afbf57cbbf359f

CREATE FUNCTION asyncjobs.replace_jobs(_ids bigint[], _rows asyncjobs.new_job[], _which integer[], _own boolean, _keys text[], _now timestamp with time zone)
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 211bbead0a28cb6c

CREATE FUNCTION asyncjobs.request_cancel(_workflow bigint, _message text)
    RETURNS text
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '1s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 89ec1b6f1da97055

CREATE FUNCTION asyncjobs.request_dispatch(_keys text[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 696931e3eef4be40

CREATE FUNCTION asyncjobs.request_opening(_ids bigint[], _freed boolean)
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 58c004d6f4124be7

CREATE FUNCTION asyncjobs.requests(_runner bigint)
    RETURNS TABLE(id bigint, token bigint, wanted text, message text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 514d3a5c6d410258

CREATE FUNCTION asyncjobs.requeue_dead_letters(_ids bigint[], _by text, _force boolean)
    RETURNS TABLE(dead_letter_id bigint, outcome text, job_id bigint, new_id bigint, status text, queue text, other_id bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '1s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: bcf1fcf2c0448e08

CREATE FUNCTION asyncjobs.requeued_of(_ids bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 60a89c6252e4cb73

CREATE FUNCTION asyncjobs.rescue(_batch integer, _max_errors integer, _aside bigint[] DEFAULT NULL::bigint[], _only bigint[] DEFAULT NULL::bigint[], OUT rescued bigint[], OUT dead bigint[], OUT cancelled bigint[], OUT given_back bigint[], OUT queues text[], OUT suspects text[], OUT types text[], OUT statuses text[], OUT more boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '50ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 65bc456c8d1a4bfb

CREATE FUNCTION asyncjobs.rest(_j asyncjobs.jobs)
    RETURNS jsonb
    LANGUAGE sql
-- body: SQL

CREATE FUNCTION asyncjobs.resume(_kind text, _name text)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: c2ae061b141881f2

CREATE FUNCTION asyncjobs.resume_key(_key text, OUT resumed boolean, OUT queues text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '1s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 2d4910a75bc0e57d

CREATE FUNCTION asyncjobs.retry_job(_id bigint, _by text, OUT outcome text, OUT was text, OUT other_id bigint, OUT queues text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '1s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: a97df635f5988cec

CREATE FUNCTION asyncjobs.retry_refusal(_id bigint, OUT outcome text, OUT other_id bigint)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 79bb88ce511ca1d2

CREATE FUNCTION asyncjobs.run_schedule(_name text)
    RETURNS TABLE(id bigint, created boolean, queue text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '5s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: c3a73062638f710d

CREATE FUNCTION asyncjobs.running_of(_name text, _most integer)
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 400a227476209511

CREATE FUNCTION asyncjobs.sequences_behind()
    RETURNS TABLE(name text, sequence regclass, last_value bigint, reached bigint)
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 711d341905564c44

CREATE FUNCTION asyncjobs.served(_grace interval, OUT types text[], OUT versions jsonb)
    RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: f8594f0e7c7b88cb

CREATE FUNCTION asyncjobs.set_limit(_kind text, _name text, _values jsonb, _by text)
    RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: f8212e95fc72cbb1

CREATE FUNCTION asyncjobs.set_progress(_ids bigint[], _tokens bigint[], _progress text[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 107c47ac99880332

CREATE FUNCTION asyncjobs.settle_limits()
    RETURNS double precision
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 073df2eeedf99793

CREATE FUNCTION asyncjobs.settled_limits()
    RETURNS SETOF asyncjobs.answer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 273071c6a7224f96

CREATE FUNCTION asyncjobs.shown(_value jsonb)
    RETURNS text
    LANGUAGE sql
    IMMUTABLE
-- body: SQL

CREATE FUNCTION asyncjobs.shown_payload(_type text, _payload jsonb, _ours jsonb)
    RETURNS jsonb
    LANGUAGE plpgsql
    STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 6fa57f080ce96b40

CREATE FUNCTION asyncjobs.skipped(_runner bigint, _queues text[], _lanes text[], _types text[], _suspects boolean, _priorities integer[] DEFAULT NULL::integer[], _places bigint[] DEFAULT NULL::bigint[])
    RETURNS TABLE(queue text, lane text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 451e8acd1ebd578c

CREATE FUNCTION asyncjobs.span(_duration interval)
    RETURNS interval
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.spawn_members(_job bigint, _token bigint, _from integer, _documents text[], OUT ids bigint[], OUT is_lost boolean, OUT is_alone boolean, OUT are_new boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '2s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: f3f8c9ae6e936320

CREATE FUNCTION asyncjobs.start_over(_id bigint, _by text)
    RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 1bf93deb13b182ea

CREATE FUNCTION asyncjobs.start_schedule(_name text, _runner bigint, OUT ids bigint[], OUT created boolean[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '500ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: f3397690d73b4585

CREATE FUNCTION asyncjobs.status_in_line(_id bigint, OUT status text, OUT serialization_key text)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 2be08346abc6427e

CREATE FUNCTION asyncjobs.step_payloads(_who text, _step jsonb, _known jsonb, OUT payloads jsonb[], OUT taken text[])
    RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: d10311afd3c3b937

CREATE FUNCTION asyncjobs.step_waits(_who text, _step jsonb, _known jsonb, _taken text[])
    RETURNS jsonb
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9b1ff2510bd0570b

CREATE FUNCTION asyncjobs.still_processing(_ids bigint[], _tokens bigint[])
    RETURNS TABLE(token bigint, is_ours boolean)
    LANGUAGE sql
    STABLE
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: SQL

CREATE FUNCTION asyncjobs.sweep_limits(_after text, _most integer, OUT reached text, OUT requested integer)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: e03f488b15a36c88

CREATE FUNCTION asyncjobs.take_back(_id bigint)
    RETURNS boolean
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 003809bd669982b9

CREATE FUNCTION asyncjobs.take_dead_letters_keys(_ids bigint[], _force boolean, OUT takers jsonb, OUT met jsonb)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 703cb245e0fbd19b

CREATE FUNCTION asyncjobs.take_dedup_key(_type text, _key text, _id bigint, _expires_at timestamp with time zone, _taker bigint, _by_hand boolean DEFAULT false)
    RETURNS bigint
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: a9a20e856fa05dbd

CREATE FUNCTION asyncjobs.take_dedup_keys(INOUT ids bigint[], INOUT new bigint[], INOUT rows asyncjobs.new_job[], _now timestamp with time zone, OUT existing integer[], OUT did text[], OUT refused integer[], OUT statuses text[], OUT replacing integer[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: d4e03176d615185e

CREATE FUNCTION asyncjobs.take_dependents_back(_gates bigint[])
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 9790500cee9e6eca

CREATE FUNCTION asyncjobs.take_leases(_holder text, _held text[], _served text[], _new_tokens bigint[], _tried text[], _tried_tokens bigint[], _tried_renewals bigint[], _tried_long boolean[], _expiry interval)
    RETURNS text[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 0feb1b0f9018c970

CREATE FUNCTION asyncjobs.take_turns(_queue text, _name text, _lane text, _limit integer, _ahead double precision, _types text[], _suspects boolean, _versions jsonb, _is_cut boolean, INOUT _seen text[], INOUT _picked tid[], OUT is_any boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: fd2b5da49c1e90b8

CREATE FUNCTION asyncjobs.tell(_payload text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: b1546fdc5d4f90ef

CREATE FUNCTION asyncjobs.tell_dependents(_gates bigint[], _state text, OUT ids bigint[], OUT are_all boolean)
    RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 6a0bf7d2652d315d

CREATE FUNCTION asyncjobs.throttle_key(_id bigint, _token bigint, _seconds double precision)
    RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '2s'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 3ba46ce7e4a41bc4

CREATE FUNCTION asyncjobs.tick_schedule(_name text, _runner bigint, _previous timestamp with time zone, _reached timestamp with time zone, _ticks timestamp with time zone[], _skips boolean, OUT outcome text, OUT ids bigint[], OUT created boolean[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '500ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: f0bc7a064d58255b

CREATE FUNCTION asyncjobs.traced_job(_correlation_id text)
    RETURNS bigint
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.try_lock_gates(_gates bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: eae58564158b4016

CREATE FUNCTION asyncjobs.try_lock_keys(_keys text[])
    RETURNS text[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 3fdf74366cbd8ae9

CREATE FUNCTION asyncjobs.unmark_arrived(_ids bigint[])
    RETURNS asyncjobs.arrival[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 2abb20cbdd49f318

CREATE FUNCTION asyncjobs.verb_in_transaction(_verb text, _said text)
    RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 017ac68aeed522c4

CREATE FUNCTION asyncjobs.verify_completed(_id bigint, _token bigint, OUT completed boolean, OUT queues text[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET lock_timeout TO '500ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: ad830c3ce30c57c6

CREATE FUNCTION asyncjobs.wait_again(_ids bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 63514dfa3ac76614

CREATE FUNCTION asyncjobs.wait_for_claims()
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: cdc54bfa6323e914

CREATE FUNCTION asyncjobs.was_completed(_id bigint, _token bigint, _patience text)
    RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: b58ca6074a526599

CREATE FUNCTION asyncjobs.with_error(_errors jsonb, _entry jsonb, _most integer)
    RETURNS jsonb
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
-- body: SQL

CREATE FUNCTION asyncjobs.without_followers(_pending bigint[], _followers bigint[], _written bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: d4dee1c51f10dbce

CREATE FUNCTION asyncjobs.without_paused(_ids bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 2e542ee7bc93aa76

CREATE FUNCTION asyncjobs.write_jobs(_ids bigint[], _tokens bigint[], _rows asyncjobs.new_job[], _own boolean, _now timestamp with time zone)
    RETURNS integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 34fb2f8c41f63349

CREATE FUNCTION asyncjobs.write_rest(INOUT ids bigint[], INOUT new bigint[], _tokens bigint[], _rows asyncjobs.new_job[], _existing integer[], _own boolean, _draws boolean, _now timestamp with time zone)
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 0d5237cf68b97b56

CREATE FUNCTION asyncjobs.write_workflow(_id bigint, _flow jsonb, _ids bigint[], _now timestamp with time zone)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 27d69680bb7539f4

CREATE FUNCTION asyncjobs.written_before(_ids bigint[], _tokens bigint[], OUT new bigint[], OUT taken integer[])
    RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 89a80a7893c43a95

CREATE FUNCTION asyncjobs.written_workflow(_job bigint, _token bigint)
    RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
-- body: 0ebfba8bef09615c

CREATE AGGREGATE asyncjobs.sum_histograms(bigint[]) (SFUNC = asyncjobs.add_histograms, STYPE = bigint[], INITCOND = '{}', COMBINEFUNC = asyncjobs.add_histograms, PARALLEL = s);
