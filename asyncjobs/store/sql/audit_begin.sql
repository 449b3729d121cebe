-- Write down that a verb is about to be done.
INSERT INTO asyncjobs.audit AS a (via, by, verb, target, why)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::text) RETURNING a.id
