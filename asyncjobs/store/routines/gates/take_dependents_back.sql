-- Let at most 500 of those who were broken at these gates, which are locked and have some missing again (or have
-- opened since, with none dead), wait as before. One that has another
-- gate that is broken stays cancelled, and so does one whose dedup key a live job has meanwhile, or that somebody's hand has ended.
CREATE FUNCTION asyncjobs.take_dependents_back(_gates bigint[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _jobs bigint[];
    _back bigint[];
BEGIN
    SELECT t.ids INTO _jobs FROM asyncjobs.tell_dependents(_gates, 'broken') AS t;
    IF _jobs IS NULL THEN
        RETURN;
    END IF;
    _back := ARRAY(
        SELECT j.id FROM asyncjobs.jobs AS j JOIN asyncjobs.members AS m ON m.job_id = ANY (ARRAY[j.id])
        WHERE j.id = ANY (_jobs) AND j.status || '' = 'cancelled' AND m.broken_by IS NOT NULL
          AND NOT EXISTS (SELECT FROM asyncjobs.dependents AS d WHERE d.job_id = ANY (ARRAY[j.id]) AND d.state = 'broken')
        ORDER BY j.type, j.dedup_key, j.id);
    _back := ARRAY(
        SELECT j.id FROM unnest(_back) WITH ORDINALITY AS b(id, number) JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[b.id])
        WHERE j.dedup_key IS NULL OR asyncjobs.take_dedup_key(j.type, j.dedup_key, j.id, NULL, NULL, true) = j.id ORDER BY b.number);
    UPDATE asyncjobs.jobs AS j SET status = 'blocked', completed_at = NULL, error_message = NULL, updated_at = asyncjobs.clock()
    WHERE j.id = ANY (_back);
    PERFORM asyncjobs.leave_arrivals(asyncjobs.unmark_arrived(_back));
END $$;
