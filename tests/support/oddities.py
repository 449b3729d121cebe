"""Settings that a database may have, each of which has broken somebody's SQL, and sequences beyond 32 bits."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import psycopg

ODDITIES: Final[Mapping[str, Mapping[str, str]]] = {
    "no search path": {"search_path": ""},
    "another time zone": {"timezone": "Asia/Kolkata"},
    "other styles": {"datestyle": "German, DMY", "intervalstyle": "sql_standard", "bytea_output": "escape"},
    "old strings": {"standard_conforming_strings": "off", "backslash_quote": "off", "array_nulls": "off"},
    "serializable": {"default_transaction_isolation": "serializable", "default_transaction_deferrable": "on"},
    "repeatable read": {"default_transaction_isolation": "repeatable read"},
    "impatient": {"statement_timeout": "5s", "lock_timeout": "2s", "idle_in_transaction_session_timeout": "2s"},
    "nulls are equal": {"transform_null_equals": "on"},
    "other plans": {"enable_nestloop": "off", "enable_material": "off", "join_collapse_limit": "1", "jit_above_cost": "0"},
    "in parallel": {"debug_parallel_query": "on"},
    "other words": {"quote_all_identifiers": "on", "xmloption": "document", "client_encoding": "LATIN1", "row_security": "off"},
}
SEQUENCES: Final = "long sequences"


def make_odd(dsn: str, name: str) -> None:
    """Make this database so, for connections that are made from now on. `all`: in every way at once."""
    chosen = [name] if name != "all" else [*ODDITIES, SEQUENCES]
    with psycopg.connect(dsn, autocommit=True) as connection:
        known = {row[0].lower() for row in connection.execute("SELECT name FROM pg_settings")}
        for setting, value in [pair for one in chosen for pair in ODDITIES.get(one, {}).items() if pair[0] in known]:
            connection.execute(f"ALTER DATABASE {urlsplit(dsn).path[1:]} SET {setting} = '{value}'".encode())
        if SEQUENCES in chosen:
            connection.execute(
                "SELECT setval(c.oid::regclass, 3000000000) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
                "WHERE c.relkind = 'S' AND n.nspname NOT LIKE 'pg_%' AND n.nspname <> 'information_schema'"
            )
