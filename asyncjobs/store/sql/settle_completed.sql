-- Whether a completion inside the handler's transaction was committed; settles the job if so.
SELECT asyncjobs.settle_completed($1, $2) AS completed;
