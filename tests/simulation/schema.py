"""The schema of a simulated world: the functions as they are, with a clock, gates and notes of the simulation's own.

* `asyncjobs.clock()` is a setting that travels with each statement.
* A lock time-out is virtual time, too: a function says by its session's name for how long it waits for a lock (the server shows
  that to others at once), and the world cancels the wait then. Who catches a lock that is not to be had catches that.
* Before each statement of every PL/pgSQL function there is a gate. A call may be told to wait at its n-th gate, as if the server
  had taken its time there, while others go on: what two transactions do to each other shows only between their statements.
* A gate releases two dependents a transaction, and leaves the others to the next: worlds are small.
* `simulated_moves` keeps every writing of a job's status, with what `checks.py` has to know about it.
"""

import re
from typing import Final

FUNCTIONS: Final = """
SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'asyncjobs'
WHERE p.prokind = 'f'
"""
ADDED: Final = """
CREATE OR REPLACE FUNCTION asyncjobs.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
RETURN current_setting('simulated.at')::timestamptz;

-- Stands in for `pg_notify`: a notice says in the answer that there is something to be heard.
CREATE FUNCTION asyncjobs.simulated_notify(_channel text, _payload text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE 'notified';
    PERFORM pg_catalog.pg_notify(_channel, _payload);
END $$;

-- Wait at the gate that the call was told of ("gates before it, its number", and perhaps the function whose gates count), for as
-- long as that is closed.
CREATE FUNCTION asyncjobs.simulated_gate(_function text) RETURNS boolean LANGUAGE plpgsql SET application_name = 'gate' AS $$
DECLARE
    _told text[] := string_to_array(current_setting('simulated.gate'), ' ');
BEGIN
    IF _told[3] <> _function THEN
        RETURN false;
    END IF;
    IF _told[1] <> '0' THEN
        _told[1] := _told[1]::integer - 1;
        PERFORM set_config('simulated.gate', array_to_string(_told, ' '), false);
        RETURN false;
    END IF;
    PERFORM set_config('simulated.gate', '', false);
    PERFORM pg_advisory_lock_shared(7357, _told[2]::integer);
    PERFORM pg_advisory_unlock_shared(7357, _told[2]::integer);
    RETURN false;
END $$;

-- What handlers write in the transactions in which they complete their jobs.
CREATE TABLE asyncjobs.simulated_effects (job_id bigint);

CREATE TABLE asyncjobs.simulated_moves (
    number bigint GENERATED ALWAYS AS IDENTITY, at timestamptz, job_id bigint, was text, is_now text, attempts_were integer,
    attempts integer, token_was bigint, token bigint, runner_id bigint, is_paused boolean, is_rescue boolean, has_runner boolean,
    is_cancelled boolean);

CREATE FUNCTION asyncjobs.simulated_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO asyncjobs.simulated_moves
        (at, job_id, was, is_now, attempts_were, attempts, token_was, token, runner_id, is_paused, is_rescue, has_runner,
         is_cancelled)
    VALUES (asyncjobs.clock(), NEW.id, OLD.status, NEW.status, OLD.attempts, NEW.attempts,
        OLD.claim_token, NEW.claim_token,
        coalesce(NEW.runner_id, OLD.runner_id), NEW.status = 'processing' AND EXISTS (
            SELECT FROM asyncjobs.pauses AS p WHERE p.paused_at < asyncjobs.clock()
            -- (A claim does not ask for keys: the verb holds a head back. It is judged by its answer.)
            AND ((p.kind, p.name) IN (('queue', NEW.queue), ('type', NEW.type))
                 OR (OLD.status = 'waiting' AND p.kind = 'key' AND p.name = NEW.serialization_key))),
        NEW.rescues > OLD.rescues, EXISTS (SELECT FROM asyncjobs.runners AS r WHERE r.id = NEW.runner_id),
        EXISTS (SELECT FROM asyncjobs.workflows AS w WHERE w.id = NEW.workflow_id AND w.cancel_requested_at IS NOT NULL));
    RETURN NULL;
END $$;

CREATE TRIGGER simulated_move AFTER UPDATE OF status ON asyncjobs.jobs
    FOR EACH ROW EXECUTE FUNCTION asyncjobs.simulated_move();
"""
_SET: Final = re.compile(r"SET lock_timeout TO '([0-9]+m?s)'")
_SET_HERE: Final = re.compile(r"set_config\('lock_timeout', ([^,]+), true\)")
_GATE: Final = "IF current_setting('simulated.gate') <> '' AND asyncjobs.simulated_gate('{}') THEN END IF; "
#: Nobody else moves while a statement sleeps: it ends, and the world makes it again, with what it was told before.
ASLEEP: Final = "claims are under way"
_NO_SLEEP: Final = f"RAISE EXCEPTION '{ASLEEP}' USING ERRCODE = 'lock_not_available', DETAIL = _claims::text;"
_CLAIMS: Final = "asyncjobs.claims_under_way();\nBEGIN"
_SAME_CLAIMS: Final = "coalesce(nullif(current_setting('simulated.claims'), '')::text[], asyncjobs.claims_under_way());\nBEGIN"
_OPENING: Final = ("IF ", "ELSIF ", "EXCEPTION ")
_NO_STATEMENT: Final = ("--", "END", "ELSE", "ELSIF", "EXCEPTION", "WHEN", "GET ", "DECLARE", "BEGIN", "$")


def name_of(definition: str) -> str:
    """The name of the function that is defined so."""
    return definition.split("(", 1)[0].rsplit(".", 1)[1]


def as_written(definition: str) -> str:
    """A function's definition as the server tells it, with the schema's name as in the migrations."""
    return definition.replace('"asyncjobs".', "asyncjobs.")


def simulated(definition: str) -> str:
    """The function as it is in a simulated world."""
    if name_of(definition) == "tell_dependents":
        definition = definition.replace("500", "2")
    changed = _SET.sub(r"SET application_name TO 'patience \1'", definition)
    changed = _SET_HERE.sub(r"set_config('application_name', 'patience ' || \1, true)", changed)
    changed = changed.replace("WHEN lock_not_available THEN", "WHEN lock_not_available OR query_canceled THEN")
    changed = changed.replace("clock_timestamp() - now()", "interval '0'")
    changed = changed.replace("clock_timestamp()", "asyncjobs.clock()")
    changed = changed.replace("PERFORM pg_notify(", "PERFORM asyncjobs.simulated_notify(")
    changed = changed.replace("PERFORM pg_sleep(0.001);", _NO_SLEEP).replace(_CLAIMS, _SAME_CLAIMS)
    is_own = "asyncjobs.simulated_" in definition.split("\n", 1)[0] or "asyncjobs.audit_" in definition.split("\n", 1)[0]
    return changed if is_own or "LANGUAGE plpgsql" not in changed else _gated(changed)


def _gated(definition: str) -> str:
    lines: list[str] = []
    is_body = False
    before = ""
    gate = _GATE.format(name_of(definition))
    for line in definition.split("\n"):
        code = line.strip()
        begins = (
            before.endswith((";", " LOOP"))
            or before in {"BEGIN", "ELSE"}
            or (before.startswith(_OPENING) and before.endswith(" THEN"))
        )
        if is_body and begins and code and not code.startswith(_NO_STATEMENT):
            lines.append(line.replace(code, gate + code, 1))
        else:
            lines.append(line)
        if not code.startswith("--") and code:
            before = code.split(" -- ")[0].rstrip()
        is_body = (is_body or before == "BEGIN") and before != "DECLARE"
    return "\n".join(lines)
