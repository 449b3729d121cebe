-- Note which of these gates have not done with their dependents, which is what the folders go on with: they hear of it. One that has opened
-- releases those that wait; one that has some missing again, or none dead any more, takes back whom it broke.
CREATE FUNCTION asyncjobs.note_releasing(_gates bigint[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _have_more boolean;
BEGIN
    WITH looked AS (
        SELECT g.id, EXISTS (
            SELECT FROM asyncjobs.dependents AS d WHERE d.gate_id = ANY (ARRAY[g.id]) AND d.state <> 'released' AND (
                (d.state = 'waiting' AND g.missing = 0) OR (d.state = 'broken' AND (g.missing > 0 OR g.dead = 0)))) AS has_more
        FROM asyncjobs.gates AS g WHERE g.id = ANY (_gates)),
    written AS (
        UPDATE asyncjobs.gates AS g SET releasing = l.has_more FROM looked AS l WHERE g.id = ANY (ARRAY[l.id]) AND g.releasing <> l.has_more)
    SELECT bool_or(l.has_more) INTO _have_more FROM looked AS l;
    IF _have_more THEN
        PERFORM asyncjobs.tell('k');
    END IF;
END $$;
