-- A page of the dead letters that fit, and where to go on.
SELECT f.ids, f.looked, f.next
FROM asyncjobs.find_dead_letters($1::bigint, $2::integer, $3::integer, $4::text, $5::text, $6::text, $7::text, $8::text, $9::timestamptz,
    $10::timestamptz, $11::boolean, $12::text) AS f;
