-- Let something happen to a breaker.
SELECT h.formerly, h.state, h.failure_count, h.success_count, h.last_failure_in, h.half_opens_in, h.probe_tokens, h.probes_lapse_in, h.version
FROM asyncjobs.happen_to_breaker($1::text, $2::text, $3::bigint, $4::float8, $5::text, $6::integer, $7::integer, $8::integer, $9::float8) AS h;
