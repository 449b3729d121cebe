-- Whether the completion of a job in its handler's own transaction was committed; null: that is open, or not ours to know.
SELECT asyncjobs.was_completed($1, $2, $3) AS was_completed;
