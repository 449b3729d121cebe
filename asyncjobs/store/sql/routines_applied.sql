-- The routines and migrations that were applied, by the hashes of their texts.
SELECT r.name, r.hash FROM asyncjobs.routines AS r;
