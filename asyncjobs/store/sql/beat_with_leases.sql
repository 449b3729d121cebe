-- One beat of a runner, with all that it has to say about leases, and the first migration after number $14 that breaks older programs;
-- no beat: it was declared dead, or it left.
SELECT b.beat, b.runners, b.rank, b.peers, b.renewed, b.lost, b.acquired, b.duties, b.tokens, b.renewals, b.ages,
    (SELECT m.name FROM asyncjobs.migrations AS m WHERE m.breaking AND m.number > $14::integer ORDER BY m.number LIMIT 1) AS newer
FROM asyncjobs.beat_with_leases(
    $1::bigint, $2::text[], $3::bigint[], $4::jsonb, $5::text[], $6::bigint[], $7::boolean, $8::text[], $9::bigint[], $10::bigint[],
    $11::boolean[], pg_catalog.make_interval(secs => $12::float8), pg_catalog.make_interval(secs => $13::float8), $15::text[], $16::boolean) AS b
