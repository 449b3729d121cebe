-- Move every sequence on that stands behind its rows; returns those. `_surely`: look for the last place of all, not only for signs of it.
-- What others draw meanwhile may be drawn twice: ids are known by their tokens, places are looked at under the key's lock, and others are
-- drawn anew. To make that rare a sequence goes a little further than it has to.
CREATE FUNCTION asyncjobs.move_sequences(_surely boolean DEFAULT true) RETURNS TABLE (name text, was bigint, is_now bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _behind record;
    _place bigint;
BEGIN
    FOR _behind IN SELECT b.name, b.sequence, b.last_value, b.reached FROM asyncjobs.sequences_behind() AS b LOOP
        IF _behind.name = 'place_seq' THEN
            _surely := true;
            _place := _behind.reached;
        ELSE
            name := _behind.name;
            was := _behind.last_value;
            is_now := setval(_behind.sequence, _behind.reached + 1000);
            RETURN NEXT;
        END IF;
    END LOOP;
    IF _surely THEN
        _place := greatest(asyncjobs.last_place(), _place);
        was := coalesce(pg_sequence_last_value('asyncjobs.place_seq'::regclass), 0);
        IF was < _place THEN
            name := 'place_seq';
            is_now := setval('asyncjobs.place_seq', _place + 1000);
            RETURN NEXT;
        END IF;
    END IF;
END $$;
