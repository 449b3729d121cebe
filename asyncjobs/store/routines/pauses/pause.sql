-- Write down a pause. False: it was there. From its commit on no claim that begins takes anything of a queue or type (of a key: from
-- `hold_back_key` on); then `wait_for_claims`, or for a key `hold_back_key`.
CREATE FUNCTION asyncjobs.pause(_kind text, _name text, _reason text, _by text) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO asyncjobs.pauses (kind, name, reason, paused_by) VALUES (_kind, _name, _reason, _by) ON CONFLICT (kind, name) DO NOTHING;
    RETURN FOUND;
END $$;
