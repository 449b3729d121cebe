-- Forget how far a test moved the schema's clock.
DELETE FROM asyncjobs.clock_shift;
