-- Add what a runner counted since it last did to this minute's rows.
SELECT asyncjobs.record_metrics($1::text[], $2::text[], $3::bigint[], $4::float8[], $5::float8[], $6::text[]::jsonb[], $7::text[]::jsonb[])
