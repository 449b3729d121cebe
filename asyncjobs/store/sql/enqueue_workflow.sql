-- Write a workflow on a connection of asyncjobs' own; called again with the same ids and tokens if it was not answered.
SELECT w.id, w.ids, w.refused, w.statuses, w.later
FROM asyncjobs.enqueue_members($1::text, $2::text[], NULL, $3::bigint[], $4::bigint[], $5::bigint[], true, $6::boolean, $7::text) AS w;
