-- Note of what asyncjobs had made `paused` rows for that it is paused no more. A row that is locked is left for the next call. (This
-- transaction may have begun before the resume, and before an enqueue that saw the pause: what that wrote is not of somebody's hand.)
CREATE FUNCTION asyncjobs.end_holds() RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.holds AS h SET ended_at = greatest(asyncjobs.clock(), h.since) FROM (
        SELECT o.kind, o.name, o.version FROM asyncjobs.holds AS o
        WHERE o.ended_at IS NULL AND o.kind <> 'unserved'
          AND NOT EXISTS (SELECT FROM asyncjobs.pauses AS p WHERE p.kind = o.kind AND p.name = o.name)
        FOR UPDATE OF o SKIP LOCKED) AS e
    WHERE h.kind = e.kind AND h.name = e.name AND h.version = e.version;
END $$;
