"""Who may see and act: the sentences of asyncjobs/dashboard/access.py, csrf.py and site.py."""

import time
from typing import Any

import asyncpg
import pytest
from fastapi import FastAPI, HTTPException, Request

from asyncjobs import ConfigurationError
from asyncjobs.dashboard import Dashboard, Tokens, Viewer
from asyncjobs.dashboard import access as doors
from asyncjobs.dashboard.verbs import VERBS
from asyncjobs.dashboard.views import PAGES
from asyncjobs.store import sessions
from asyncjobs.telemetry.events import LoginRefused
from asyncjobs.telemetry.logs import line
from tests.dashboard.conftest import Served
from tests.support.browser import Browser

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPERATOR, LOOKER = "operator-0123456789", "looker-0123456789ab"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"allow_anonymous": True, "auth": lambda request: "ada"},
        {"auth": "short"},
        {"auth": Tokens()},
        {"auth": Tokens(operator=OPERATOR, viewer=OPERATOR)},
        {"auth": 7},
    ],
)
async def test_there_is_no_dashboard_without_a_decision(served: Served, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"who may see|at least 16|lets nobody in|the same|auth= is"):
        Dashboard(served.jobs, **settings)


async def test_no_path_answers_whom_nobody_knows(served: Served) -> None:
    async with served.browser(auth=lambda request: None) as nobody:
        for path in {path.replace("{id:int}", "1") for path, _ in PAGES}:
            page = await nobody.get(path)
            assert (page.status, "You may not see this." in page.text) == (403, True), path
            assert not page.having("nav"), "not even the menu"
        for verb in VERBS:
            assert (await nobody.http.post(f"/do/{verb.name}")).status_code == 403, verb.name


async def test_a_function_may_answer_in_each_way(served: Served) -> None:
    async def viewer(request: Request) -> Viewer:
        return Viewer(request.headers["x-user"], may_act=False)

    async with served.browser(auth=viewer) as browser:
        page = await browser.get("/jobs", headers={"x-user": "<b>eve"})
        assert "<b>eve · read only" in page.text
        assert not page.having("b", id="")
        assert not page.having("button", formaction="/do/jobs/kill")

    def redirect(request: Request) -> str:
        raise HTTPException(303, headers={"location": "/sso"})

    async with served.browser(auth=redirect) as browser:
        page = await browser.get("/jobs")
        assert (page.status, page.headers["location"]) == (303, "/sso")

    async with served.browser(auth=lambda request: object()) as browser:
        assert (await browser.get("/jobs")).status == 400

    def fail(request: Request) -> str:
        raise KeyError("user")

    async with served.browser(auth=fail) as browser:
        page = await browser.get("/jobs")
        assert (page.status, "KeyError" in page.html) == (500, False)


async def test_a_viewer_changes_nothing(served: Served) -> None:
    for settings in ({"auth": lambda request: Viewer("eve", may_act=False)}, {"auth": lambda request: "ada", "read_only": True}):
        async with served.browser(**settings) as browser:
            page = await browser.get("/queues")
            assert "read only" in page.text
            assert not page.having("form", method="post")
            browser.csrf = await csrf_of(browser)
            assert (await browser.send("pause", {"queue": "mail"})).status == 403
    assert not await served.jobs.admin.pauses()


async def csrf_of(browser: Browser) -> str:
    """What a form would carry, also where no page has one."""
    from asyncjobs.dashboard import csrf

    site: Any = browser.http._transport.app  # type: ignore[attr-defined]
    name = (await site.door.viewer(Request({"type": "http", "headers": []}))).name
    return csrf.token_for(site.secret, Viewer(name), browser.http.cookies[csrf.COOKIE])


async def test_tokens_are_entered_once_or_sent_with_each_request(served: Served) -> None:
    tokens = Tokens(operator=OPERATOR, viewer=LOOKER)
    async with served.browser(auth=tokens) as browser:
        sent_away = await browser.get("/jobs?type=email")
        assert (sent_away.status, sent_away.headers["location"]) == (303, "/login?back=%2Fjobs%3Ftype%3Demail")
        refused = await browser.send("/login", {"token": "wrong", "back": "/jobs"})
        assert (refused.status, "This is not the token." in refused.text) == (401, True)
        entered = await browser.send("/login", {"token": OPERATOR, "back": "/jobs?type=email"})
        assert (entered.status, entered.url.path, "operator" in entered.text) == (200, "/jobs", True)
        left = await browser.send("/logout")
        assert left.url.path == "/login"
        assert (await browser.get("/jobs")).status == 303
        assert (await browser.http.get("/live/queues")).status_code == 303
    async with served.browser(auth=tokens) as program:
        assert (await program.get("/jobs", headers={"authorization": f"Bearer {LOOKER}"})).status == 200
        assert (await program.get("/jobs", headers={"authorization": "Bearer nothing-of-the-kind"})).status == 401
        assert (await program.http.post("/do/pause")).status_code == 401


async def test_a_session_ends_with_its_time_with_its_token_and_when_it_is_forged(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = served.site(auth=Tokens(operator=OPERATOR)).door
    session = door.session_for(Request({"type": "http", "headers": [], "path": "/login"}), OPERATOR)
    assert session is not None

    async def status(cookie: str, auth: Any = OPERATOR) -> int:
        async with served.browser(auth=auth) as browser:
            return (await browser.get("/jobs", headers={"cookie": f"{doors.SESSION_COOKIE}={cookie}"})).status

    assert await status(session) == 200
    assert await status(session, "another-token-0123") == 303
    assert await status(session.replace("operator", "viewer", 1)) == 303
    for forged in ("", ".", "operator", "operator.9999999999.", "operator.9999999999.x.", "x.y.z"):
        assert await status(forged) == 303
    monkeypatch.setattr(doors, "time", type("later", (), {"time": staticmethod(lambda: time.time() + doors.SESSION_SECONDS)}))
    assert await status(session) == 303


async def test_a_logout_ends_the_session_in_every_process(served: Served) -> None:
    tokens = Tokens(operator=OPERATOR)
    async with served.browser(auth=tokens) as browser, served.browser(auth=tokens) as other_process:
        await browser.http.post("/login", data={"token": OPERATOR})
        kept = {"cookie": f"{doors.SESSION_COOKIE}={browser.http.cookies[doors.SESSION_COOKIE]}"}
        assert (await other_process.get("/jobs", headers=kept)).status == 200
        await browser.get("/jobs")
        await browser.send("/logout")
        for process in (browser, other_process):
            assert (await process.get("/jobs", headers=kept)).status == 303
        await browser.http.post("/login", data={"token": OPERATOR})
        assert (await browser.get("/jobs")).status == 200, "another session is not ended with it"


async def test_a_session_ends_here_where_the_database_takes_no_note_of_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read_only(*_args: object) -> None:
        raise asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction")

    monkeypatch.setattr(sessions, "end", read_only)
    async with served.browser(auth=OPERATOR) as browser:
        await browser.http.post("/login", data={"token": OPERATOR})
        kept = {"cookie": f"{doors.SESSION_COOKIE}={browser.http.cookies[doors.SESSION_COOKIE]}"}
        await browser.get("/jobs")
        assert (await browser.send("/logout")).url.path == "/login"
        assert (await browser.get("/jobs", headers=kept)).status == 303


async def test_wrong_tokens_are_told_and_after_ten_none_is_looked_at(served: Served) -> None:
    told: list[LoginRefused] = []
    unsubscribe = served.jobs.events.subscribe(told.append, LoginRefused)
    async with served.browser(auth=OPERATOR) as browser:
        session = {"authorization": f"Bearer {OPERATOR}"}
        await browser.http.post("/login", data={"token": OPERATOR})
        for number in range(10):
            header = {"authorization": f"Bearer wrong {number}"}
            form = {"token": "wrong"}
            sent = browser.http.get("/jobs", headers=header) if number % 2 else browser.http.post("/login", data=form)
            assert (await sent).status_code == 401
        for answer in (
            await browser.http.post("/login", data={"token": OPERATOR}),
            await browser.http.get("/jobs", headers=session),
        ):
            assert (answer.status_code, "Too many wrong tokens" in answer.text) == (429, True)
            assert 0 < int(answer.headers["retry-after"]) <= 60
        assert (await browser.get("/jobs")).status == 200, "a session goes on"
    unsubscribe()
    assert [(one.address, one.wrong, one.is_last) for one in told] == [("127.0.0.1", n, n == 10) for n in range(1, 11)]
    assert line(told[0])[:2] == ("warning", "asyncjobs.login.refused")
    assert "Bearer" not in str(told)


async def test_a_program_needs_no_form_and_is_answered_in_a_sentence(served: Served, ids: dict[str, int]) -> None:
    async with served.browser(auth=Tokens(operator=OPERATOR, viewer=LOOKER)) as program:
        may, may_not = {"authorization": f"Bearer {OPERATOR}"}, {"authorization": f"Bearer {LOOKER}"}
        done = await program.http.post("/do/pause", data={"queue": "mail"}, headers=may)
        assert (done.status_code, done.text) == (200, 'Queue "mail" is paused. What runs goes on.\n')
        asked = await program.http.post("/do/jobs/kill", data={"id": min(ids.values())}, headers=may)
        assert (asked.status_code, "Send sure=1 to do it." in asked.text) == (409, True)
        assert (await program.http.post("/do/resume", data={"queue": "mail"}, headers=may_not)).status_code == 403
        elsewhere = may | {"origin": "https://evil.example.com"}
        assert (await program.http.post("/do/resume", data={"queue": "mail"}, headers=elsewhere)).status_code == 403
        assert (await program.http.post("/do/resume", data={"queue": "mail"}, headers=may)).status_code == 200


@pytest.mark.parametrize(
    ("base", "client", "headers", "status"),
    [
        ("http://localhost:8080", "127.0.0.1", {}, 200),
        ("http://127.0.0.1", "127.0.0.1", {}, 200),
        ("http://[::1]:8080", "::1", {}, 200),
        ("http://localhost", "192.0.2.7", {}, 403),
        ("http://rebound.example.com", "127.0.0.1", {}, 403),
        ("http://localhost", "127.0.0.1", {"x-forwarded-for": "127.0.0.1"}, 403),
        ("http://localhost", "127.0.0.1", {"forwarded": "for=192.0.2.7"}, 403),
    ],
)
async def test_anonymous_viewers_come_from_this_machine_only(
    served: Served, base: str, client: str, headers: dict[str, str], status: int
) -> None:
    async with Browser(Dashboard(served.jobs, allow_anonymous=True), base=base, client=client, headers=headers) as browser:
        assert (await browser.get("/")).status == status


async def test_a_form_needs_its_token_and_our_origin(served: Served) -> None:
    async with served.browser() as browser, served.browser() as other:
        await browser.get("/queues")
        await other.get("/queues")
        token = browser.csrf
        for wrong in ("x", "0" * 64, other.csrf):
            browser.csrf = wrong
            assert (await browser.send("pause", {"queue": "mail"})).status == 403, wrong
        browser.csrf = token
        for headers in ({"origin": "http://evil.example.com"}, {"origin": "null"}, {"origin": "http://localhost:81"}):
            assert (await browser.send("pause", {"queue": "mail"}, headers=headers)).status == 403, headers
        response = await browser.http.post(
            "/do/pause", data={"csrf": token, "queue": "mail"}, headers={"sec-fetch-site": "cross-site"}
        )
        assert response.status_code == 403
        assert not await served.jobs.admin.pauses()
        assert "is paused" in (await browser.send("pause", {"queue": "mail"})).text
        assert "goes on" in (await browser.send("resume", {"queue": "mail"})).text


async def test_origins_are_those_that_a_proxy_has_for_us(served: Served) -> None:
    async with served.browser(auth=lambda request: "ada", origins=["https://ops.example.com"]) as browser:
        page = await browser.send("resume", {"queue": "mail"}, headers={"origin": "https://ops.example.com"})
        assert page.status == 200


async def test_no_get_changes_anything(browser: Browser) -> None:
    for verb in VERBS:
        assert (await browser.get(f"/do/{verb.name}")).status == 405


async def test_every_answer_has_the_headers(browser: Browser) -> None:
    for path in ("/", "/jobs/0", "/nowhere", "/static/dashboard.css", "/login"):
        page = await browser.get(path)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
        assert "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "same-origin"
    assert (await browser.get("/")).headers["cache-control"] == "no-store"
    cookie = (await browser.http.get("/")).headers["set-cookie"]
    assert ("HttpOnly" in cookie, "SameSite=strict" in cookie, "Path=/" in cookie) == (True, True, True)


async def test_cookies_are_secure_over_https(served: Served) -> None:
    async with Browser(served.site(), base="https://ops.example.com") as browser:
        assert "Secure" in (await browser.http.get("/")).headers["set-cookie"]


async def test_it_works_mounted_under_a_prefix(served: Served, ids: dict[str, int]) -> None:
    app = FastAPI()
    app.mount("/ops/jobs", served.site())
    async with Browser(app, base="http://localhost/ops/jobs") as browser:
        page = await browser.get("/queues")
        addresses = [
            found.get(name) or "" for _, found in page.elements for name in ("href", "src", "action", "formaction", "data-live")
        ]
        assert all(address.startswith(("/ops/jobs/", "#")) for address in addresses if address)
        assert page.having("a", href="/ops/jobs/queues", **{"aria-current": "page"})
        paused = await browser.send("pause", {"queue": "mail", "back": "/queues"})
        assert (paused.url.path, "is paused" in paused.text) == ("/ops/jobs/queues", True)
        await browser.send("resume", {"queue": "mail", "back": "/queues"})


async def test_a_form_leads_back_to_pages_of_ours_only(browser: Browser) -> None:
    await browser.get("/queues")
    for back in ("//evil.example.com/", "https://evil.example.com", "/\\evil.example.com", "javascript:alert(1)", "/a\r\nb"):
        response = await browser.http.post("/do/resume", data={"csrf": browser.csrf, "queue": "mail", "back": back})
        assert response.headers["location"] == "/", back
