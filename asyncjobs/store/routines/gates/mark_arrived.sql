-- Note that these members have ended, those that had not; their rows in `jobs` are locked. Returns what arrives where (null: nothing):
-- `dead_id` is one that died, or that was the first to.
CREATE FUNCTION asyncjobs.mark_arrived(_ids bigint[]) RETURNS asyncjobs.arrival[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _came asyncjobs.arrival[];
BEGIN
    WITH ended AS (
        UPDATE asyncjobs.members AS m SET arrived = CASE s.status WHEN 'completed' THEN 0 ELSE 1 END
        FROM (SELECT u.id, coalesce(j.status, 'gone') AS status
              FROM unnest(_ids) AS u(id) LEFT JOIN asyncjobs.jobs AS j ON j.id = ANY (ARRAY[u.id])) AS s
        WHERE m.job_id = ANY (ARRAY[s.id]) AND m.arrived IS NULL AND s.status = ANY ('{completed,dead,cancelled,gone}'::text[])
        RETURNING m.workflow_id || m.gates AS gates, m.arrived, CASE WHEN m.arrived > 0 THEN coalesce(m.broken_by, m.job_id) END AS dead_id),
    counted AS (
        SELECT g.id, count(1)::integer AS n, sum(e.arrived)::integer AS dead, min(e.dead_id) AS dead_id
        FROM ended AS e CROSS JOIN LATERAL unnest(e.gates) AS g(id) GROUP BY g.id)
    SELECT array_agg(ROW(c.id, c.n, c.dead, c.dead_id)::asyncjobs.arrival) INTO _came FROM counted AS c;
    RETURN _came;
END $$;
