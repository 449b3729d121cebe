-- Take the pause of a queue or a type away.
DELETE FROM asyncjobs.pauses AS p WHERE p.kind = $1::text AND p.name = $2::text RETURNING p.name;
