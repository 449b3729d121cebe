-- Jobs that wait in no line are to join theirs again.
SELECT asyncjobs.rejoin($1) AS count;
