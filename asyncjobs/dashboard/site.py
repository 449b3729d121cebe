"""The dashboard as an ASGI application: every request goes through one door, and every answer carries the same headers.

1. Who asks is known before anything is read; only the login and the files that pages load are there for everybody.
2. A verb is a POST that passes the form's checks (`csrf`) by somebody who may act. GET changes nothing.
3. Whatever goes wrong is a page with a status; a traceback is for the log.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from asyncjobs.app import AsyncJobs
from asyncjobs.dashboard import csrf, logins
from asyncjobs.dashboard.access import Auth, Door, LoginNeeded
from asyncjobs.dashboard.forms import Fields, form_of
from asyncjobs.dashboard.news import Fragments, News
from asyncjobs.dashboard.problems import EXPECTED, BadInput, Refused, answer_to
from asyncjobs.dashboard.sessions import Sessions
from asyncjobs.dashboard.templating import STATIC, static_file
from asyncjobs.dashboard.throttle import TooManyTokens
from asyncjobs.dashboard.verbs import VERBS, Verb
from asyncjobs.dashboard.views import PAGES
from asyncjobs.dashboard.visit import Page, Visit
from asyncjobs.dashboard.web import HTTPException, Receive, Request, Response, Scope, Send, application, routed
from asyncjobs.dashboard.web import Message as Sent

_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with `no-referrer` browsers hide the origin of forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

_STAYS: Final = "public, max-age=31536000, immutable"


class Dashboard:
    """An ASGI application of pages over `jobs.admin`. See the package for `auth`, and for how to serve it.

    `origins` names the addresses under which browsers reach it, as `https://ops.example.com`, when a proxy in between changes
    the Host header. `title` is what its pages call the app. ConfigurationError when nobody has decided who may see it.
    """

    def __init__(
        self,
        jobs: AsyncJobs,
        *,
        auth: Auth | None = None,
        allow_anonymous: bool = False,
        read_only: bool = False,
        origins: Sequence[str] = (),
        title: str = "asyncjobs",
    ) -> None:
        self.jobs = jobs
        self.door = Door(auth, allow_anonymous=allow_anonymous, sessions=Sessions(jobs), events=jobs.events)
        self.read_only = read_only
        self.origins = tuple(origins)
        self.title = title
        self.news = News()
        self.fragments = Fragments()
        pages = [routed(path, self._answer(page), method="GET") for path, page in PAGES]
        verbs = [routed(f"/do/{verb.name}", self._do(verb), method="POST") for verb in VERBS]
        open_to_all = [
            routed("/static/{name}", self._static, method="GET"),
            routed("/login", self._visit(logins.page), method="GET"),
            routed("/login", self._log_in, method="POST"),
            routed("/logout", self._log_out, method="POST"),
        ]
        self._app = application([*pages, *verbs, *open_to_all], self._failed, EXPECTED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""

        async def sent(message: Sent) -> None:
            if message["type"] == "http.response.start":
                headers: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
                had = {name.lower() for name, _ in headers}
                more = {"cache-control": "no-store", **_HEADERS}
                headers += [(name.encode(), text.encode()) for name, text in more.items() if name.encode() not in had]
                message["headers"] = headers
            await send(message)

        await self._app(scope, receive, sent)

    @property
    def secret(self) -> bytes:
        """What forms are signed with: made of the DSN, which every process of the dashboard has, and its viewers have not."""
        opened = self.jobs.lifecycle.opened
        dsn = "" if opened is None else opened.database.dsn
        return hashlib.sha256(f"asyncjobs dashboard\0{dsn}".encode()).digest()

    def _answer(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await page(Visit(self, request, await self.door.viewer(request)))

        return answer

    def _visit(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await page(Visit(self, request, None))

        return answer

    def _do(self, verb: Verb) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visit, form = await self._sent(request)
            if not visit.may_act:
                raise Refused(403, "You may look here, and change nothing.")
            return await verb.perform(visit, form)

        return answer

    async def _sent(self, request: Request) -> tuple[Visit, Fields]:
        """A form of ours, and who sent it; Refused."""
        viewer = await self.door.viewer(request)
        csrf.check_origin(request, self.origins)
        form = await form_of(request)
        csrf.check_token(self.secret, viewer, request, form.text(csrf.FIELD))
        return Visit(self, request, viewer), form

    async def _log_in(self, request: Request) -> Response:
        csrf.check_origin(request, self.origins)
        return logins.entered(Visit(self, request, None), await form_of(request))

    async def _log_out(self, request: Request) -> Response:
        visit, _ = await self._sent(request)
        return await logins.left(visit)

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise Refused(404, "There is no such file.")
        return Response(static_file(name), media_type=STATIC[name], headers={"cache-control": _STAYS})

    async def _failed(self, request: Request, error: Exception) -> Response:
        if isinstance(error, LoginNeeded) and request.method == "GET" and "authorization" not in request.headers:
            visit = Visit(self, request, None)
            return Response(status_code=303, headers={"location": visit.url("/login", back=visit.here)})
        headers: dict[str, str] = {}
        if isinstance(error, HTTPException):
            status, said, headers = error.status_code, _said_by_http(error), dict(error.headers or {})
        else:
            status, said = answer_to(error)
        if isinstance(error, TooManyTokens):
            headers["retry-after"] = str(error.seconds)
        visit = Visit(self, request, None)
        if not isinstance(error, LoginNeeded | TooManyTokens | HTTPException) or status in {404, 405}:
            visit = await self._known(request)
        response = visit.page(
            "problem.html", status=status, status_code=status, problem=said, is_input=isinstance(error, BadInput)
        )
        response.headers.update(headers)
        return response

    async def _known(self, request: Request) -> Visit:
        """The visit for a page about a problem: with the menu, for those who may see it."""
        try:
            return Visit(self, request, await self.door.viewer(request))
        except Exception:  # noqa: BLE001 - what goes wrong here has gone wrong before, and is being told
            return Visit(self, request, None)


def _said_by_http(error: HTTPException) -> str:
    texts = {404: "There is no such page.", 405: "This is not how that is asked for."}
    return texts.get(error.status_code, str(error.detail))
