-- What is wrong with limits, by why. 'closed': keys that a service has closed for $1 seconds or longer, with something waiting. 'full': keys and
-- totals that are taken for full, and are not (at most $2 are looked at), where no request is on its way that opens them. 'differs': limits
-- that living runners declare otherwise than what counts. Of each how many (runners), the first of them, and a job of it or so.
(SELECT 'closed' AS why, pg_catalog.count(1) OVER () AS count, k.key AS name, k.closed_by AS job_id, asyncjobs.instant(k.closed_until) AS until,
    NULL::bigint AS running, NULL::integer AS most
FROM asyncjobs.limit_keys AS k
WHERE k.closed_seconds >= $1::float8 AND k.closed_until > asyncjobs.moment() AND EXISTS (
    SELECT FROM asyncjobs.jobs AS j WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = k.key AND j.status = 'pending')
ORDER BY k.closed_until DESC LIMIT 1)
UNION ALL
(SELECT 'full', pg_catalog.count(1) OVER (), f.name, f.job_id, NULL, f.running, f.most FROM (
    SELECT t.key AS name, r.running, l.each AS most, w.id AS job_id
    FROM (SELECT o.key, o.queue FROM asyncjobs.limit_turns AS o WHERE o.state = 'full' LIMIT $2::integer) AS t
    JOIN asyncjobs.limits AS l ON l.kind = 'limit' AND l.name = asyncjobs.limit_name(t.key)
    CROSS JOIN LATERAL (SELECT pg_catalog.count(1) AS running FROM asyncjobs.jobs AS j
        WHERE asyncjobs.limit_side(j.status) = 1 AND j.limit_key = t.key AND j.runner_id IS NOT NULL) AS r
    CROSS JOIN LATERAL (SELECT j.id FROM asyncjobs.jobs AS j
        WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = t.key AND j.queue = t.queue AND j.status = 'pending' LIMIT 1) AS w
    WHERE coalesce(r.running < l.each, true) AND NOT EXISTS (SELECT FROM asyncjobs.limit_requests AS q WHERE q.key = t.key)
    UNION ALL
    SELECT l.name, r.running, l.total, w.id FROM asyncjobs.limits AS l
    CROSS JOIN LATERAL (SELECT pg_catalog.count(1) AS running FROM asyncjobs.jobs AS j
        WHERE asyncjobs.limit_side(j.status) = 1 AND j.runner_id IS NOT NULL
          AND (j.limit_key = l.name OR (j.limit_key > (l.name || ':') AND j.limit_key < (l.name || ';')))) AS r
    CROSS JOIN LATERAL (SELECT j.id FROM asyncjobs.jobs AS j
        WHERE asyncjobs.limit_side(j.status) = 0 AND j.status = 'pending'
          AND (j.limit_key = l.name OR (j.limit_key > (l.name || ':') AND j.limit_key < (l.name || ';'))) LIMIT 1) AS w
    WHERE l.kind = 'limit' AND l.is_full AND coalesce(r.running < l.total, true)
      AND NOT EXISTS (SELECT FROM asyncjobs.limit_requests AS q WHERE asyncjobs.limit_name(q.key) = l.name)) AS f
ORDER BY f.name LIMIT 1)
UNION ALL
(SELECT 'differs', pg_catalog.count(DISTINCT r.id), pg_catalog.min(l.kind || ' ' || l.name), pg_catalog.min(r.id), NULL, NULL,
    pg_catalog.count(DISTINCT (l.kind, l.name))::integer
FROM asyncjobs.runners AS r CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(r.limits) AS d(item)
JOIN asyncjobs.limits AS l ON l.kind = d.item ->> 'kind' AND l.name = d.item ->> 'name' AND l.declared <> d.item -> 'values'
HAVING pg_catalog.count(1) > 0)
