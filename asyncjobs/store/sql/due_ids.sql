-- The jobs that a `promote` of so many would look at, those of lines apart: for which of them is refused.
SELECT j.id FROM asyncjobs.due_jobs AS j
WHERE j.due_at <= asyncjobs.clock() AND j.due_at >= coalesce($2::timestamptz, '-infinity') AND j.id <> ALL ($3::bigint[])
  AND (j.serialization_key IS NULL
       OR EXISTS (SELECT FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (ARRAY[j.id]) AND s.dispatched_at IS NOT NULL))
ORDER BY j.due_at LIMIT $1::integer;
