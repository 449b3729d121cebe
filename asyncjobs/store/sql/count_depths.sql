-- Count the kinds of which there are more than $1 unfinished jobs, for those who look often.
SELECT asyncjobs.count_depths($1::integer);
