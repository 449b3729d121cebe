-- Note whether gates have not done with their dependents; the folders hear of it.
CREATE FUNCTION asyncjobs.note_releasing(_gates bigint[], _have_more boolean) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.gates AS g SET releasing = _have_more WHERE g.id = ANY (_gates) AND g.releasing <> _have_more;
    IF _have_more THEN
        PERFORM asyncjobs.tell('k');
    END IF;
END $$;
