-- Outcomes whose answer was lost: which are still to be written, which are written; a row that is missing is not ours any more.
SELECT p.id, p.is_ours FROM asyncjobs.still_processing($1, $2) AS p;
