-- Where the next page goes on: below the last that fits, when this one is full; else below the last that was looked at, when it was a full
-- look, for nothing is known of what is below. Null: there is nothing more.
CREATE FUNCTION asyncjobs.next_page(_ids bigint[], _limit integer, _seen bigint[], _look integer) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN cardinality(_ids) >= _limit THEN _ids[_limit] WHEN cardinality(_seen) >= _look THEN _seen[_look] END;
