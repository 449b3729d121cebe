-- Make the rows of breakers that are declared for the first time.
SELECT asyncjobs.declare_breakers($1::text[]);
