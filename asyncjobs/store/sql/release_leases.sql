-- Free leases by holder and token, and name the runner that is to take them.
SELECT r.released, r.successor
FROM asyncjobs.release_leases($1::bigint, $2::text[], $3::bigint[], $4::jsonb, pg_catalog.make_interval(secs => $5::float8)) AS r
