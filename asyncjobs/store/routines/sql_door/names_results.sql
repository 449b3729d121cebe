-- Whether a value stands for the result of another member, or for those of a group: {"$result": name}, {"$results": name}. Inlined.
CREATE FUNCTION asyncjobs.names_results(_value jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN jsonb_typeof(_value) = 'object' AND (_value ? '$result' OR _value ? '$results');
