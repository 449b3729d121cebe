-- Delete a batch of what has been kept for long enough. Times are seconds.
SELECT p.held, p.jobs, p.dead_letters, p.runners, p.dedup_keys, p.audit, p.more, p.failures
FROM asyncjobs.prune(
    $1::text, $2::text, $3::bigint, $4::integer, pg_catalog.make_interval(secs => $5::float8),
    pg_catalog.make_interval(secs => $6::float8), pg_catalog.make_interval(secs => $7::float8),
    pg_catalog.make_interval(secs => $8::float8), pg_catalog.make_interval(secs => $9::float8), $10::text[],
    ARRAY(SELECT pg_catalog.make_interval(secs => k.seconds) FROM unnest($11::float8[]) WITH ORDINALITY AS k(seconds, number)
          ORDER BY k.number)) AS p
