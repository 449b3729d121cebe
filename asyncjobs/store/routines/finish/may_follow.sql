-- Whether a job may be claimed behind its head, by a scan of this queue and these types. Inlined, so it carries no SET. (A status with '': as
-- routines/keys says.)
CREATE FUNCTION asyncjobs.may_follow(_j asyncjobs.jobs, _queue text, _types text[], _versions jsonb) RETURNS boolean LANGUAGE sql VOLATILE
    RETURN (_j).status || '' = 'waiting' AND (_j).queue || '' = _queue AND (_j).type || '' = ANY (_types) AND (_j).limit_key IS NULL
        AND (_j).suspicion = 0 AND (_j).losses = 0 AND (_j).on_dead = 'advance' AND (_j).requested_outcome IS NULL
        AND asyncjobs.may_start((_j).start_before) AND asyncjobs.can_run(_versions, (_j).type, (_j).version);
