-- Enqueue a job in this transaction: its id, or that of the live job that has its dedup key. `payload`: the handler's arguments by name.
-- `options`: as in Python, by name; durations are seconds or intervals ('5 min'), instants have a time zone. "undeclared": true takes a
-- type that no runner has declared.
CREATE FUNCTION asyncjobs.enqueue(type text, payload jsonb DEFAULT '{}', options jsonb DEFAULT '{}') RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (asyncjobs.enqueue_payloads(type, ARRAY[payload], jsonb_build_array(options)))[1];
END $$;
REVOKE EXECUTE ON FUNCTION asyncjobs.enqueue FROM PUBLIC;
