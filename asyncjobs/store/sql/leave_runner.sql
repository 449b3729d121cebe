-- A runner that stops on its own moves to the former ones, without a death, and frees its leases. Twice is the same as once.
SELECT l.successor FROM asyncjobs.leave_runner($1::bigint, $2::text[], pg_catalog.make_interval(secs => $3::float8)) AS l
