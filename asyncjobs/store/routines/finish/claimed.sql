-- What is answered of a job: the columns of `answer`, by the row that was written. Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.claimed(_kind text, _scan integer, _j asyncjobs.jobs) RETURNS asyncjobs.answer LANGUAGE sql VOLATILE
    RETURN ROW(_kind, _scan, (_j).queue, (_j).id, (_j).claim_token, (_j).type, (_j).version, (_j).payload, (_j).priority, (_j).place,
        (_j).attempts, (_j).max_attempts, asyncjobs.epoch((_j).scheduled_at), asyncjobs.epoch((_j).run_at), asyncjobs.epoch((_j).started_at),
        asyncjobs.epoch((_j).created_at), (_j).serialization_key, asyncjobs.rest(_j))::asyncjobs.answer;
