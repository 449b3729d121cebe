-- When `pauses` changes, by a verb or by hand: what rows may be paused for is noted, and the runners bring them in step at once.
CREATE FUNCTION asyncjobs.note_pause() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP <> 'DELETE' AND NEW.kind IN ('type', 'key') THEN
        INSERT INTO asyncjobs.holds AS h (kind, name) VALUES (NEW.kind, NEW.name)
        ON CONFLICT (kind, name, version) DO UPDATE SET ended_at = NULL;
    END IF;
    PERFORM asyncjobs.tell('p');
    RETURN NULL;
END $$;
CREATE TRIGGER pauses_note AFTER INSERT OR UPDATE OR DELETE ON asyncjobs.pauses
    FOR EACH ROW EXECUTE FUNCTION asyncjobs.note_pause();
