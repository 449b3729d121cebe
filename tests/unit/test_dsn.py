"""DSNs as users have them; what cannot be used is named, and its password never is."""

import pytest

from asyncjobs import AsyncJobs, InvalidDSN, MissingDSN
from asyncjobs.dsn import masked, parse_dsn, resolve_dsn

GOOD = {
    "postgresql://u:p%2Fw@db:5432/jobs": "postgresql://u:p%2Fw@db:5432/jobs",
    "postgres://db/jobs": "postgres://db/jobs",
    "postgresql+asyncpg://u@db/jobs": "postgresql://u@db/jobs",
    "postgresql+psycopg://u@db/jobs?sslmode=require": "postgresql://u@db/jobs?sslmode=require",
    "postgresql://a:1,b:2/jobs?target_session_attrs=read-write": "postgresql://a:1,b:2/jobs?target_session_attrs=read-write",
    "postgresql:///jobs?host=/var/run/postgresql": "postgresql:///jobs?host=/var/run/postgresql",
    "postgresql://[::1]:5433/jobs": "postgresql://[::1]:5433/jobs",
}

ESCAPE = 'has a character that must be escaped: use urllib.parse.quote(password, safe="").'
PORTS = "give a number from 1 to 65535."
BAD = {
    "": 'the DSN "" does not begin with postgresql:// or embedded://.',
    "db:5432": 'the DSN "db:5432" does not begin with postgresql:// or embedded://.',
    "host=db password=secret": 'the DSN "host=db password=***" does not begin with postgresql:// or embedded://.',
    "u:secret@db/jobs": 'the DSN "u:***@db/jobs" does not begin with postgresql:// or embedded://.',
    "mysql://u:secret@db/jobs": 'the DSN "mysql://u:***@db/jobs" begins with "mysql://": asyncjobs needs postgresql:// or embedded://.',
    "postgresql+pg8000://u:secret@db/jobs": 'the DSN "postgresql+pg8000://u:***@db/jobs" begins with "postgresql+pg8000://": '
    "asyncjobs needs postgresql:// or embedded://.",
    "postgresql://u:***@db/jobs": 'the password in this DSN is "***": str(engine.url) hides it. '
    "Use engine.url.render_as_string(hide_password=False).",
    "postgresql://u:sec/ret@db/jobs": f'the user or password in the DSN "postgresql://u:***@db/jobs" {ESCAPE}',
    "postgresql://u:secret@db:port/jobs": f'the DSN "postgresql://u:***@db:port/jobs" has port "port": {PORTS}',
    "postgresql://u:secret@db:99999/jobs": f'the DSN "postgresql://u:***@db:99999/jobs" has port "99999": {PORTS}',
    "embedded://folder": 'the DSN "embedded://folder" names no absolute folder: write embedded:///folder with three slashes.',
}


@pytest.mark.parametrize(("given", "used"), GOOD.items())
def test_a_dsn_is_taken_as_asyncpg_needs_it(given: str, used: str) -> None:
    assert resolve_dsn(given).text == used


@pytest.mark.parametrize(("given", "message"), BAD.items())
def test_a_dsn_that_cannot_be_used_is_refused_where_the_app_is_made(given: str, message: str) -> None:
    with pytest.raises(InvalidDSN) as caught:
        AsyncJobs(given)
    assert str(caught.value) == message
    assert "secret" not in str(caught.value)


def test_an_engines_url_is_refused_with_how_to_write_it_out() -> None:
    from sqlalchemy import make_url

    with pytest.raises(InvalidDSN) as caught:
        parse_dsn(make_url("postgresql+asyncpg://u:secret@db/jobs"))
    assert str(caught.value) == "the DSN is a URL, not a str. Use engine.url.render_as_string(hide_password=False)."


def test_without_a_dsn_the_environment_is_asked_at_open_only(monkeypatch: pytest.MonkeyPatch) -> None:
    AsyncJobs()
    monkeypatch.setenv("ASYNCJOBS_DSN", "postgresql://db/jobs")
    assert resolve_dsn(None).text == "postgresql://db/jobs"
    monkeypatch.setenv("ASYNCJOBS_DSN", "")
    with pytest.raises(MissingDSN) as caught:
        resolve_dsn(None)
    assert str(caught.value) == (
        "no DSN given and $ASYNCJOBS_DSN is not set. "
        'Pass one, or AsyncJobs("embedded://") for a private PostgreSQL.'
    )  # fmt: skip


def test_embedded_names_its_folder() -> None:
    assert (resolve_dsn("embedded://").is_embedded, resolve_dsn("embedded://").folder) == (True, None)
    assert resolve_dsn("embedded:///tmp/my jobs").folder == "/tmp/my jobs"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:secret@db/jobs",
        "postgresql://u:sec:ret@db/jobs",
        "postgresql://u:sec@ret@db/jobs",
        "postgresql://u:sec/ret@db/jobs",
        "postgresql://db/jobs?user=u&password=secret",
        "postgresql://db/jobs?PASSWORD=secret&x=1",
        "host=db password='sec ret' user=u",
        "password = secret",
    ],
)
def test_no_way_to_write_a_password_shows_it(text: str) -> None:
    assert "***" in masked(text)
    assert "sec" not in masked(text)
    assert "ret" not in masked(text)


def test_a_dsn_does_not_show_its_password() -> None:
    dsn = resolve_dsn("postgresql://u:secret@db:5432/jobs")
    assert (repr(dsn), str(dsn), dsn.place) == (
        "Dsn('postgresql://u:***@db:5432/jobs')",
        "postgresql://u:***@db:5432/jobs",
        "db:5432",
    )
    assert "secret" not in repr(AsyncJobs("postgresql://u:secret@db:5432/jobs"))
