-- Ids for jobs to be, as reserve_ids, each with the proof that it was given.
SELECT g.ids, g.proofs FROM asyncjobs.give_ids($1::integer) AS g;
