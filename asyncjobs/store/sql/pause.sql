-- Pause a queue or a type; and whether anybody knows one of that name.
SELECT asyncjobs.pause($1::text, $2::text, $3::text, $4::text) AS paused,
    EXISTS (SELECT FROM asyncjobs.runners AS r WHERE r.stopped_at IS NULL
        AND ($1::text = 'all' OR $2::text = ANY (CASE WHEN $1::text = 'queue' THEN r.queues ELSE r.types END))) AS served;
