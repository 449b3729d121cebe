-- Python's `isprintable` for all characters of the first plane that are assigned: controls, formats, separators and private ones are not.
-- In a database that is not in UTF-8 only controls are looked for: its regular expressions know no other numbers.
CREATE FUNCTION asyncjobs.is_printable(_text text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF _text ~ '[\x01-\x1f\x7f]' THEN
        RETURN false;
    ELSIF octet_length(_text) = length(_text) OR getdatabaseencoding() <> 'UTF8' THEN
        RETURN true;
    END IF;
    RETURN _text !~ ('[\u0080-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u1680'
        '\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u2066-\u206f\u3000\ue000-\uf8ff\ufeff\ufff9-\ufffb]');
END $$;
