-- Write down what came of a verb.
CREATE FUNCTION asyncjobs.end_verb(_id bigint, _outcome text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE asyncjobs.audit AS a SET outcome = _outcome, ended_at = clock_timestamp() WHERE a.id = _id;
END $$;
