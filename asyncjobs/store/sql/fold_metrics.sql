-- Make one row of an old hour's minutes, of an old quarter's hours and of an old day's quarters, and delete old days. Times are seconds.
SELECT f.held, f.folded, f.deleted, f.more
FROM asyncjobs.fold_metrics(
    $1::text, $2::text, $3::bigint,
    pg_catalog.make_interval(secs => $4::float8), pg_catalog.make_interval(secs => $5::float8),
    pg_catalog.make_interval(secs => $6::float8), pg_catalog.make_interval(secs => $7::float8)) AS f;
