-- Write down a verb that was done in this transaction, on a caller's connection.
CREATE FUNCTION asyncjobs.note_verb(_deed jsonb, _outcome text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO asyncjobs.audit (at, ended_at, via, by, verb, target, why, outcome)
    VALUES (asyncjobs.moment(), clock_timestamp(), _deed ->> 'via', _deed ->> 'by', _deed ->> 'verb', _deed ->> 'target', _deed ->> 'why', _outcome);
END $$;
