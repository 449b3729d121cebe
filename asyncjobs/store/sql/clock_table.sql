-- How far a test moved the schema's clock: for transactions that begin from an instant on.
CREATE TABLE IF NOT EXISTS asyncjobs.clock_shift (since timestamptz PRIMARY KEY, shift interval NOT NULL);
