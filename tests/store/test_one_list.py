"""A job has one list of columns for its row, one for its INSERT and one for an answer; functions are no longer than a page."""

import ast
import re
from pathlib import Path
from typing import Final

import asyncjobs
from asyncjobs.model.claim import Claimed

ROOT: Final = Path(asyncjobs.__file__).parent
MOST_PLACES: Final = 10
MOST_LINES: Final = 60
MOST_ARRAYS: Final = 12

#: Longer than that: a function that is called from another takes some 6 us of the server's time, which counts where all is short.
LONGER: Final = {
    "ack": 67,  # the same
    "claim": 69,  # the same: what the followers of heads need of it is two conditions
    "finish_completed": 114,  # with `claim` for its scan 5 % more at 1 job a call (131 us instead of 125), 3 at 10, 1 at 50
    "finish_one": 88,  # of 136 us, which are the pace of a key; it has no part that is called by another
}


def _lists(text: str) -> int:
    """Tables, types, views, functions and INSERTs that name the column beside another."""
    parts = re.split(r"\b(?=CREATE |INSERT INTO )", re.sub("--.*", "", text))
    return sum(_names_both(set(re.findall(r"\w+", part))) for part in parts)


def _structs(text: str) -> int:
    """Classes, calls and displays that name the column beside another."""
    found = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            names = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
        elif isinstance(node, ast.Call):
            strings = {one.value for one in node.args if isinstance(one, ast.Constant)}
            names = {one.arg or "" for one in node.keywords} | {str(one) for one in strings}
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            names = {str(one.value) for one in node.elts if isinstance(one, ast.Constant)}
        elif isinstance(node, ast.Dict):
            names = {str(one.value) for one in node.keys if isinstance(one, ast.Constant)}
        else:
            continue
        found += _names_both(names)
    return found


def _names_both(names: set[str]) -> bool:
    return {"trace_context", "created_by"} <= names


def test_a_column_of_a_job_stands_in_ten_places() -> None:
    """A place is a list of a job's columns that a new one has to be added to: a table, a type, a view, a function's list, or an
    INSERT's, a struct, a call or a display with their names. It is told by two columns of every such list, `trace_context` and
    `created_by`. What uses one column alone (tracing, an event) is no list.
    """
    sql = {file: _lists(file.read_text(encoding="utf-8")) for file in ROOT.rglob("*.sql")}
    python = {file: _structs(file.read_text(encoding="utf-8")) for file in ROOT.rglob("*.py")}
    places = {str(file.relative_to(ROOT)): count for file, count in (sql | python).items() if count}
    assert sum(places.values()) <= MOST_PLACES, places
    said = (ROOT.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = said[said.index("## A column of a job") : said.index("## Things to keep")]
    assert [file for file in places if "migrations" not in file and f"`{file}`" not in section] == []


def test_what_few_jobs_have_is_answered_in_the_order_of_the_claims_fields() -> None:
    text = (ROOT / "store" / "routines" / "listing" / "rest.sql").read_text(encoding="utf-8")
    text = re.sub(r"CASE WHEN \(_j\)\.dedup_until.*?END", "(_j).dedup_key", text, flags=re.DOTALL)  # it is freed beside
    answered = re.findall(r"\(_j\)\.(\w+)", text[text.index("jsonb_build_array") :])
    optional = Claimed.__struct_fields__[-len(Claimed.__struct_defaults__) :]
    assert optional[-5:] == ("expires_epoch", "workflow_id", "start_by", "followers", "number"), (
        "the last four are this process's own"
    )
    assert [re.sub("_seconds$", "", name) for name in (*optional[:-5], "start_before")] == answered


def _functions() -> dict[str, str]:
    files = [file for file in (ROOT / "store" / "routines").rglob("*.sql") if not file.name.startswith("_")]
    return {
        file.stem: text[text.index("CREATE ") :] for file in files if "FUNCTION" in (text := file.read_text(encoding="utf-8"))
    }


def test_no_function_is_longer_than_a_page() -> None:
    lengths = {name: len(text.rstrip().splitlines()) for name, text in _functions().items()}
    assert {name: count for name, count in lengths.items() if count > LONGER.get(name, MOST_LINES)} == {}
    assert set(LONGER) <= {name for name, count in lengths.items() if count > MOST_LINES}, "it is shorter now"


def test_no_function_takes_more_than_a_dozen_arrays() -> None:
    heads = {name: text.partition("$$")[0] for name, text in _functions().items()}
    counts = {name: len(re.findall(r"\b_\w+ [\w.]+\[\]", head)) for name, head in heads.items()}
    assert {name: count for name, count in counts.items() if count > MOST_ARRAYS} == {}
