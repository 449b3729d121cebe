-- A page of members of open workflows: whose ends nobody has counted; and the workflows that are being cancelled.
SELECT l.ended, l.last_workflow, l.last_number, l.cancelling FROM asyncjobs.look_at_members($1::bigint, $2::bigint, $3::integer) AS l;
