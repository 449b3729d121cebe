-- How far a test moved the schema's clock.
CREATE TABLE IF NOT EXISTS asyncjobs.clock_shift (is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only), shift interval NOT NULL);
