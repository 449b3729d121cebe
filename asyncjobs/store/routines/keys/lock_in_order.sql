-- Lock those of the jobs that have one of these statuses (not `waiting`), in the order of their ids, then the keys, then the places of
-- those that wait in lines: an ack dispatches without the key's lock, and has the place first. A job that was dispatched meanwhile has
-- moved on: to wait for its row now, with the key in hand, would deadlock with a call that has the row and waits for the key. The locks
-- that were taken in vain are let go by rolling back to where the block began.
CREATE FUNCTION asyncjobs.lock_in_order(_ids bigint[], _statuses text[], _keys text[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _rows bigint[];
BEGIN
    IF coalesce(cardinality(_ids), 0) = 0 THEN
        PERFORM asyncjobs.lock_keys(_keys);
        RETURN;
    END IF;
    LOOP
        BEGIN
            _rows := asyncjobs.having_status(_ids, _statuses);
            PERFORM FROM asyncjobs.jobs AS j WHERE j.id = ANY (_rows) ORDER BY j.id FOR UPDATE;
            IF asyncjobs.having_status(_ids, _statuses) = _rows THEN
                PERFORM asyncjobs.lock_keys(_keys);
                PERFORM FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (_ids) AND s.dispatched_at IS NULL
                ORDER BY s.serialization_key COLLATE "C", s.place FOR UPDATE;
                IF asyncjobs.having_status(_ids, _statuses) = _rows THEN
                    RETURN;
                END IF;
            END IF;
            RAISE EXCEPTION 'a job moved on' USING ERRCODE = 'AJ001';
        EXCEPTION WHEN SQLSTATE 'AJ001' THEN
            NULL;
        END;
    END LOOP;
END $$;
