-- Let a schedule tick, unless another runner did.
SELECT t.outcome, t.ids, t.created
FROM asyncjobs.tick_schedule($1::text, $2::bigint, $3::timestamptz, $4::timestamptz, $5::timestamptz[], $6::boolean) AS t;
