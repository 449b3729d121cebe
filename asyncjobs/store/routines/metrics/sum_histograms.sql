-- Any number of histograms as one.
CREATE AGGREGATE asyncjobs.sum_histograms(bigint[]) (
    SFUNC = asyncjobs.add_histograms, STYPE = bigint[], INITCOND = '{}', COMBINEFUNC = asyncjobs.add_histograms, PARALLEL = SAFE);
