-- Make a batch of rows say what is paused. Times are seconds.
SELECT c.held, c.resumed, c.queues, c.more
FROM asyncjobs.converge_pauses($1::integer, $2::integer, pg_catalog.make_interval(secs => $3::float8)) AS c;
