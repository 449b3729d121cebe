-- A page of keys, or ($3) one of them.
SELECT k.key, k.depth, k.head_id, k.head_type, k.head_status, asyncjobs.instant(k.head_since) AS head_since,
    asyncjobs.instant(k.oldest_at) AS oldest_at, asyncjobs.instant(k.halted_at) AS halted_at, k.halt_reason, asyncjobs.instant(k.paused_at) AS paused_at,
    k.pause_reason, k.runner_id
FROM asyncjobs.list_keys($1::text, $2::integer, $3::text) AS k;
