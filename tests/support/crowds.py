"""Very many jobs at once, for what has to stay cheap beside them."""

from asyncjobs.store.database import Connection

_FINISHED = """
INSERT INTO asyncjobs.jobs (enqueue_token, type, queue, status, payload, correlation_id, created_at, run_at, started_at,
    completed_at, attempts)
SELECT 0, 'type' || n % 20, 'default', 'completed', jsonb_build_object('number', n, 'to', 'user' || n || '@example.com'),
    'trace' || n / 5, t.at, t.at, t.at, t.at, 1
FROM generate_series(1, $1) AS n, (SELECT now() - interval '1 day' AS at) AS t
"""

_LIVE = """
INSERT INTO asyncjobs.jobs (enqueue_token, type, queue, status, payload, run_at, priority)
SELECT 0, 'type' || n % 20, 'queue' || n % 5, CASE n % 4 WHEN 0 THEN 'scheduled' WHEN 1 THEN 'failed' ELSE 'pending' END,
    jsonb_build_object('number', n), now() + (n % 1000) * interval '1 minute', n % 7
FROM generate_series(1, $1) AS n
"""

_WAITING = """
WITH made AS (
    INSERT INTO asyncjobs.jobs (enqueue_token, serialization_key, type, queue, status, payload)
    SELECT 0, 'dest_' || n % greatest($1 / 20, 1), 'type' || n % 20, 'default', 'waiting', '{}' FROM generate_series(1, $1) AS n
    RETURNING id, place, serialization_key)
INSERT INTO asyncjobs.serialized_jobs (id, place, serialization_key) SELECT m.id, m.place, m.serialization_key FROM made AS m
"""

_DEAD = """
WITH made AS (
    INSERT INTO asyncjobs.jobs (enqueue_token, type, queue, status, payload, completed_at, error_message, attempts)
    SELECT 0, 'type' || n % 20, 'default', 'dead', '{}', now() - n * interval '1 second', 'ValueError: number ' || n, 3
    FROM generate_series(1, $1) AS n RETURNING id)
SELECT asyncjobs.bury(array_agg(id)) FROM made
"""

# A million jobs in a week are five a minute of each of twenty types; one in twenty attempts fails. Durations that
# vary by a factor of five about their middle fill so many buckets, each row others.
_METRICS = """
INSERT INTO asyncjobs.job_metrics (job_type, status, minute, span, count, queue_seconds, run_seconds, queue_time, run_time)
SELECT 'type' || t, s, at, span, 5 * filled, 1, 1,
    (SELECT array_agg(((200 + b + n % 7)::bigint << 40) + 1 + (n * b + t) % 97) FROM generate_series(1, filled) AS b),
    (SELECT array_agg(((250 + b + n % 7)::bigint << 40) + 1 + (n * b + t) % 89) FROM generate_series(1, filled) AS b)
FROM generate_series(1, $1) AS t, unnest(ARRAY['completed', 'failed']) AS s, LATERAL (
    SELECT date_trunc('minute', now()) - n * interval '1 minute' AS at, interval '1 minute' AS span, n,
        CASE s WHEN 'completed' THEN 5 ELSE 1 END AS filled
    FROM generate_series(0, 149) AS n WHERE s = 'completed' OR n % 4 = 0
    UNION ALL
    SELECT date_trunc('hour', now()) - n * interval '1 hour', '1 hour', n, CASE s WHEN 'completed' THEN 60 ELSE 13 END
    FROM generate_series(3, 27) AS n
    UNION ALL
    SELECT date_bin('6 hours', now(), 'epoch') - n * interval '6 hours', '6 hours', n, CASE s WHEN 'completed' THEN 85 ELSE 40 END
    FROM generate_series(5, 31) AS n
    UNION ALL
    SELECT date_bin('1 day', now(), 'epoch') - n * interval '1 day', '1 day', n, CASE s WHEN 'completed' THEN 110 ELSE 60 END
    FROM generate_series(8, 90) AS n) AS spans
"""


async def crowd(connection: Connection, *, finished: int, live: int = 0, waiting: int = 0, dead: int = 0, types: int = 0) -> None:
    """Put so many jobs into the tables, as they would be; and roll-ups of so many types."""
    for statement, count in ((_FINISHED, finished), (_LIVE, live), (_WAITING, waiting), (_DEAD, dead), (_METRICS, types)):
        if count:
            await connection.execute(statement.replace("$1", str(count)), timeout=900)
    tables = ("jobs", "serialized_jobs", "job_metrics", "dead_letter_jobs")
    await connection.execute(f"VACUUM (ANALYZE) {', '.join(f'asyncjobs.{table}' for table in tables)}", timeout=900)
