-- Write down that a verb is about to be done.
CREATE FUNCTION asyncjobs.begin_verb(_via text, _by text, _verb text, _target text, _why text) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _id bigint;
BEGIN
    INSERT INTO asyncjobs.audit AS a (via, by, verb, target, why) VALUES (_via, _by, _verb, _target, _why) RETURNING a.id INTO _id;
    RETURN _id;
END $$;
