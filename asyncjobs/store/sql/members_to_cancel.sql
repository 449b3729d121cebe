-- Members of a workflow that are to be cancelled.
SELECT asyncjobs.members_to_cancel($1::bigint, $2::integer) AS ids;
