-- Write down what was changed by hand, in SQL.
CREATE FUNCTION asyncjobs.note_by_hand() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO asyncjobs.audit (at, ended_at, via, by, verb, target, why, outcome)
    VALUES (asyncjobs.moment(), clock_timestamp(), 'sql', session_user || coalesce(' (' || nullif(current_setting('application_name'), '') || ')', ''),
        TG_OP, TG_TABLE_NAME, left(current_query(), 1000), 'done');
    RETURN NULL;
END $$;
CREATE TRIGGER pauses_by_hand AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON asyncjobs.pauses FOR EACH STATEMENT
    WHEN (pg_catalog.current_setting('search_path') <> 'pg_catalog, pg_temp') EXECUTE FUNCTION asyncjobs.note_by_hand();
CREATE TRIGGER schedules_by_hand AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON asyncjobs.schedules FOR EACH STATEMENT
    WHEN (pg_catalog.current_setting('search_path') <> 'pg_catalog, pg_temp') EXECUTE FUNCTION asyncjobs.note_by_hand();
CREATE TRIGGER circuit_breakers_by_hand AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON asyncjobs.circuit_breakers FOR EACH STATEMENT
    WHEN (pg_catalog.current_setting('search_path') <> 'pg_catalog, pg_temp') EXECUTE FUNCTION asyncjobs.note_by_hand();
CREATE TRIGGER dead_letter_jobs_by_hand AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON asyncjobs.dead_letter_jobs FOR EACH STATEMENT
    WHEN (pg_catalog.current_setting('search_path') <> 'pg_catalog, pg_temp') EXECUTE FUNCTION asyncjobs.note_by_hand();
CREATE TRIGGER audit_by_hand AFTER UPDATE OR DELETE OR TRUNCATE ON asyncjobs.audit FOR EACH STATEMENT
    WHEN (pg_catalog.current_setting('search_path') <> 'pg_catalog, pg_temp') EXECUTE FUNCTION asyncjobs.note_by_hand();
