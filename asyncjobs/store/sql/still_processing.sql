-- What became of outcomes whose answer was lost.
SELECT p.token, p.is_ours FROM asyncjobs.still_processing($1, $2) AS p;
