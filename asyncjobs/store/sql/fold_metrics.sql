-- Make one row of an old hour's minutes, of an old quarter's hours and of an old day's quarters, and delete old days. Times are seconds.
SELECT f.folded, f.deleted, f.more
FROM asyncjobs.fold_metrics(
    pg_catalog.make_interval(secs => $1::float8), pg_catalog.make_interval(secs => $2::float8),
    pg_catalog.make_interval(secs => $3::float8), pg_catalog.make_interval(secs => $4::float8)) AS f;
