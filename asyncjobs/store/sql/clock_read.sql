-- What the schema's clock says.
SELECT asyncjobs.clock() AS now;
