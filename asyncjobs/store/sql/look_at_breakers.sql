-- How these breakers are.
SELECT l.service_name, l.state, l.failure_count, l.success_count, l.last_failure_in, l.half_opens_in, l.probe_tokens, l.probes_lapse_in, l.version
FROM asyncjobs.look_at_breakers($1::text[]) AS l;
