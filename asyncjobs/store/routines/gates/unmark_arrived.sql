-- Note that these members, which had died or been cancelled, are to end once more; their rows in `jobs` are locked. Returns, as
-- `mark_arrived`, what arrives where.
CREATE FUNCTION asyncjobs.unmark_arrived(_ids bigint[]) RETURNS asyncjobs.arrival[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _came asyncjobs.arrival[];
BEGIN
    WITH living AS (
        UPDATE asyncjobs.members AS m SET arrived = NULL, broken_by = NULL
        WHERE m.job_id = ANY (_ids) AND m.arrived = 1
        RETURNING m.workflow_id || m.gates AS gates),
    counted AS (
        SELECT g.id, -count(1)::integer AS n FROM living AS l CROSS JOIN LATERAL unnest(l.gates) AS g(id) GROUP BY g.id)
    SELECT array_agg(ROW(c.id, c.n, c.n, NULL)::asyncjobs.arrival) INTO _came FROM counted AS c;
    RETURN _came;
END $$;
