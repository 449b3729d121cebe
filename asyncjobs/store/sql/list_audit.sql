-- A page of the trail of verbs, the newest first.
SELECT a.id, a.at, a.ended_at, a.by, a.via, a.verb, a.target, a.why, a.outcome
FROM asyncjobs.audit AS a
WHERE ($1::bigint IS NULL OR a.id < $1::bigint) AND ($3::text IS NULL OR a.by = $3::text)
  AND ($4::text IS NULL OR a.verb = $4::text OR starts_with(a.verb, $4::text || '.'))
  AND ($5::text IS NULL OR a.target = $5::text) AND ($6::text IS NULL OR a.via = $6::text)
  AND ($7::timestamptz IS NULL OR a.at >= $7::timestamptz) AND ($8::timestamptz IS NULL OR a.at < $8::timestamptz)
ORDER BY a.id DESC LIMIT $2::integer
