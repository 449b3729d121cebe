-- Let a schedule whose last tick lies in the future begin anew from now.
SELECT s.last_tick FROM asyncjobs.reanchor_schedule($1::text, $2::timestamptz) AS s(last_tick);
