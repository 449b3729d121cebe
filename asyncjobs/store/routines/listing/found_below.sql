-- Of the ids that an index named, those below `_before`, the highest first: what a page looks at. Null when none was asked, or when it named
-- more than `_look`: the ids are walked then.
CREATE FUNCTION asyncjobs.found_below(_found bigint[], _before bigint, _look integer) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN cardinality(_found) <= _look THEN ARRAY(SELECT u.id FROM unnest(_found) AS u(id) WHERE u.id < _before ORDER BY u.id DESC) END;
