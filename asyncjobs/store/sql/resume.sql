-- Take the pause of a queue or a type away; whether there was one.
SELECT asyncjobs.resume($1::text, $2::text) AS resumed;
