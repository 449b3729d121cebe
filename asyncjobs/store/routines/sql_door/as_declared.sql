-- A row with what its options say, and for the rest what its type does: `empty_row`, `in_queue` and `with_defaults` of declare/new_job.py. Of a type that
-- nobody has declared the handler is asked, as for a stub.
CREATE FUNCTION asyncjobs.as_declared(_name text, _type asyncjobs.types, _options jsonb) RETURNS asyncjobs.new_job LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _row asyncjobs.new_job := asyncjobs.read_options(_options, _type.dedup_by IS NOT NULL);
BEGIN
    IF _row.limit_key IS NOT NULL AND _type.limit_by IS NULL THEN
        PERFORM asyncjobs.refuse('InvalidOption', format('limit_key="%s" was given for %s, but %s.', _row.limit_key, _name,
            CASE WHEN _type.limit_name IS NULL THEN 'it has no limit' ELSE format('its limit "%s" has no by=', _type.limit_name) END), 'Leave it out.');
    END IF;
    IF _type.name IS NULL THEN
        IF _options -> 'undeclared' IS DISTINCT FROM 'true' THEN
            PERFORM asyncjobs.refuse('UnknownType', format('no job "%s" in this schema. Known: %s.', _name, asyncjobs.known_types()),
                'Runners declare their types when they open. For one that none has declared yet give the option "undeclared": true.');
        END IF;
        IF _row.timeout_seconds = 'Infinity' THEN
            PERFORM asyncjobs.refuse('InvalidOption',
                format('%s: the timeout of a stub''s job is its handler''s, and cannot be lifted here.', _name), 'Nobody has declared it.');
        END IF;
        _row.type := asyncjobs.read_name('job', coalesce(to_jsonb(_name), 'null'));
        _row.queue := coalesce(_row.queue, 'default');
        _row.on_dead := CASE WHEN _row.max_attempts IS NULL THEN 'ask all' ELSE 'ask' END;
        RETURN _row;
    END IF;
    _row.type := _type.type;
    _row.version := _type.version;
    _row.on_dead := _type.on_dead;
    _row.queue := coalesce(_row.queue, _type.queue);
    _row.lane := coalesce(_row.lane, _type.lane);
    _row.priority := coalesce(_row.priority, _type.priority);
    _row.max_attempts := coalesce(_row.max_attempts, _type.max_attempts);
    _row.timeout_seconds := coalesce(_row.timeout_seconds, _type.timeout_seconds);
    _row.expires_seconds := coalesce(_row.expires_seconds, _type.expires_seconds);
    _row.tags := nullif(CASE WHEN _row.tags IS NULL THEN _type.tags ELSE asyncjobs.read_tags('tags', to_jsonb(_type.tags || _row.tags)) END, '{}');
    IF NOT _type.queues ? _row.queue THEN
        PERFORM asyncjobs.refuse('UnknownQueue', format('%s: queue "%s" is not in queues= (%s).', _type.type, _row.queue, asyncjobs.names_in(_type.queues)),
            'The queues are those of the program that declared the type.');
    ELSIF _row.lane IS NOT NULL AND _type.queues -> _row.queue ? _row.lane THEN
        _row.timeout_seconds := coalesce(_row.timeout_seconds, (_type.queues -> _row.queue ->> _row.lane)::float8);
    ELSIF _row.lane = _type.lane AND _row.queue <> _type.queue THEN
        _row.lane := NULL;  -- it is left behind with the type's own queue
    ELSIF _row.lane IS NOT NULL THEN
        PERFORM asyncjobs.refuse('UnknownLane',
            format('%s: lane "%s" is not a lane of queue "%s" (%s).', _type.type, _row.lane, _row.queue, asyncjobs.names_in(_type.queues -> _row.queue)),
            'The lanes are those of the program that declared the type.');
    END IF;
    _row.timeout_seconds := nullif(coalesce(_row.timeout_seconds, _type.app_timeout_seconds), 'Infinity');
    RETURN _row;
END $$;
