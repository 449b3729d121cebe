-- The results that a member's arguments name.
SELECT r.number, r.job_id, r.type, r.status, r.result, r.result_dropped FROM asyncjobs.member_results($1::bigint, $2::jsonb) AS r;
