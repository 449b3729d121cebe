-- A page of keys, or ($3) one of them.
SELECT k.key, k.depth, k.head_id, k.head_type, k.head_status, k.head_since, k.oldest_at, k.halted_at, k.halt_reason, k.paused_at,
    k.pause_reason, k.runner_id
FROM asyncjobs.list_keys($1::text, $2::integer, $3::text) AS k;
