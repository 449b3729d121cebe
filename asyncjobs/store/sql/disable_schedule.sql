-- Let a schedule tick no more.
SELECT s.name FROM asyncjobs.disable_schedule($1::text, $2::text, $3::text) AS s(name);
