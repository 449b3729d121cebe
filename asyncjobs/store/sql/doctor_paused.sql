-- Jobs that an operator's SQL has set to `paused`, by type; at most $1 rows are looked at.
SELECT p.type, pg_catalog.count(1) AS count FROM (
    SELECT j.type, j.version, j.serialization_key FROM asyncjobs.jobs AS j WHERE j.status = 'paused' LIMIT $1::integer) AS p
WHERE NOT EXISTS (SELECT FROM asyncjobs.holds AS h
    WHERE (h.name = p.type AND (h.kind = 'type' OR (h.kind = 'unserved' AND h.version = p.version)))
       OR (h.kind = 'key' AND h.name = p.serialization_key))
GROUP BY p.type ORDER BY p.type
