-- Note keys (of a queue and lane), or limits (no queue), of which this call may have found the end: `settle_limits` looks again.
CREATE FUNCTION asyncjobs.note_touched(_keys text[], _queue text, _lane text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('asyncjobs_limits.touched', (
        coalesce(nullif(current_setting('asyncjobs_limits.touched', true), ''), '[]')::jsonb
        || (SELECT jsonb_agg(jsonb_build_array(k.key, _queue, _lane)) FROM unnest(_keys) AS k(key)))::text, true);
END $$;
