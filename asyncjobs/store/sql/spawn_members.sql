-- Members that a running member adds to its workflow.
SELECT s.ids, s.is_lost, s.is_alone, s.are_new FROM asyncjobs.spawn_members($1::bigint, $2::bigint, $3::integer, $4::text[]) AS s;
