-- How much has been kept for long enough, as `prune` takes it ($1-$5: seconds; $6, $7: other times for ended jobs of some types).
SELECT (SELECT pg_catalog.count(1) FROM asyncjobs.jobs AS j
        LEFT JOIN unnest($6::text[], $7::float8[]) AS k(type, seconds) ON k.type = j.type
        WHERE j.status IN ('completed', 'cancelled')
          AND j.completed_at < asyncjobs.clock() - pg_catalog.make_interval(secs =>
              coalesce(k.seconds, CASE j.status WHEN 'completed' THEN $1::float8 ELSE $2::float8 END))) AS jobs,
    (SELECT pg_catalog.count(1) FROM asyncjobs.dead_letter_jobs AS d
     WHERE d.acknowledged AND d.acknowledged_at < asyncjobs.clock() - pg_catalog.make_interval(secs => $3::float8)) AS dead_letters,
    (SELECT pg_catalog.count(1) FROM asyncjobs.former_runners AS f
     WHERE f.ended_at < asyncjobs.clock() - pg_catalog.make_interval(secs => $4::float8)) AS runners,
    (SELECT pg_catalog.count(1) FROM asyncjobs.dedup_keys AS u WHERE NOT u.live AND u.expires_at < asyncjobs.clock()) AS dedup_keys,
    (SELECT pg_catalog.count(1) FROM asyncjobs.audit AS a
     WHERE a.at < asyncjobs.clock() - pg_catalog.make_interval(secs => $5::float8)) AS audit
