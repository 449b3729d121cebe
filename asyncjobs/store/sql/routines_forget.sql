-- Forget the routines that are no more. ($1: those that are, and migrations)
DELETE FROM asyncjobs.routines AS r WHERE r.name <> ALL ($1::text[]);
