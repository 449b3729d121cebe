-- Make a schedule's job since this runner starts.
SELECT s.ids, s.created FROM asyncjobs.start_schedule($1::text, $2::bigint) AS s;
