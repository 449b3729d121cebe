"""Who looks: the decision that a dashboard cannot be made without.

1. Without a decision there is no dashboard: no `auth` and no `allow_anonymous` is a ConfigurationError, and so are both.
2. A function is asked on every request. None is nobody: 403. What it raises as an HTTPException is the answer.
3. Tokens are compared in constant time, and wrong ones are counted (`throttle`), told, and refused after a few. A browser gets a
   session for 12 hours, signed with a key made from the tokens: every process accepts it, a changed token ends it, and a logout
   ends it in every process (`sessions`). A program sends the token with each request.
4. Anonymous viewers are let in from this machine only: by a loopback address, under a loopback name (a page of another site that
   had its name resolve to 127.0.0.1 comes under its own), and without headers that a proxy leaves behind.
"""

import hashlib
import hmac
import inspect
import ipaddress
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import msgspec

from asyncjobs.dashboard.problems import Refused
from asyncjobs.dashboard.sessions import Sessions
from asyncjobs.dashboard.throttle import MOST_WRONG, Throttle
from asyncjobs.dashboard.web import Request
from asyncjobs.errors import ConfigurationError
from asyncjobs.telemetry.events import Events, LoginRefused

SESSION_COOKIE: Final = "asyncjobs_session"
SESSION_SECONDS: Final = 12 * 3600

_SHORTEST: Final = 16
_BY_PROXIES: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


class Viewer(msgspec.Struct, frozen=True):
    """Somebody who may look, and act if `may_act`; the name is what verbs are recorded under. Who may not see payloads sees none,
    no results and no progress, downloads and searches none.
    """

    name: str
    may_act: bool = True
    sees_payloads: bool = True


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Secrets of at least 16 characters: who knows `operator` may act, who knows `viewer` may look, who knows `observer` may look
    at all but payloads.
    """

    operator: str | None = None
    viewer: str | None = None
    observer: str | None = None

    def __repr__(self) -> str:
        return "<Tokens>"


Answer: TypeAlias = Viewer | str | None
Auth: TypeAlias = Callable[[Request], Answer | Awaitable[Answer]] | Tokens | str


class LoginNeeded(Refused):
    """A browser has to log in first."""

    def __init__(self) -> None:
        super().__init__(401, "Log in first, or send the token as `Authorization: Bearer …`.")


class Door:
    """Answers who somebody is, or refuses."""

    def __init__(self, auth: Auth | None, *, allow_anonymous: bool, sessions: Sessions, events: Events) -> None:
        if (auth is None) != allow_anonymous:
            raise ConfigurationError(
                "who may see the dashboard? Say auth= (a function of the request, or a token of at least 16 characters), or "
                "allow_anonymous=True for everybody on this machine, and not both."
            )
        self.tokens = _checked_tokens(auth)
        self._sessions = sessions
        self._events = events
        self._throttle = Throttle()
        self._ask: Any = auth if self.tokens is None else None
        if self._ask is not None and not callable(self._ask):
            raise ConfigurationError(f"auth= is a function of the request, Tokens or a token, and not {type(auth).__name__}.")

    async def viewer(self, request: Request) -> Viewer:
        """Who this is; Refused."""
        if self.tokens is not None:
            return await self._known(request)
        if self._ask is None:
            return _local(request)
        answer = self._ask(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str) and answer:
            answer = Viewer(answer)
        if isinstance(answer, Viewer):
            return answer
        if answer is None or answer is False:
            raise Refused(403, "You may not see this.")
        raise ConfigurationError(f"auth= returned {type(answer).__name__}: a Viewer, a name, or None for nobody.")

    def session_for(self, request: Request, token: str) -> str | None:
        """A session's cookie for whoever knows the token; None. TooManyTokens."""
        role = self._guessed(request, token)
        if role is None:
            return None
        text = f"{role}.{int(time.time()) + SESSION_SECONDS}.{secrets.token_hex(16)}"
        return f"{text}.{self._sign(text)}"

    async def end_session(self, request: Request) -> None:
        """No process takes the request's session any more."""
        found = self._session_in(request.cookies.get(SESSION_COOKIE, ""))
        if found is not None:
            _, until, session = found
            await self._sessions.end(session, until)

    async def _known(self, request: Request) -> Viewer:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        role = self._guessed(request, token) if kind.lower() == "bearer" else await self._role_in(request)
        if role is None:
            raise LoginNeeded
        return Viewer(role, may_act=role == "operator", sees_payloads=role != "observer")

    async def _role_in(self, request: Request) -> str | None:
        found = self._session_in(request.cookies.get(SESSION_COOKIE, ""))
        return None if found is None or await self._sessions.is_ended(found[2]) else found[0]

    def _guessed(self, request: Request, token: str) -> str | None:
        """Whose token it is. A wrong one is counted, and told; TooManyTokens."""
        address = request.client.host if request.client is not None else ""
        self._throttle.check(address)
        role = self._role_of(token)
        if role is None:
            count = self._throttle.wrong(address)
            self._events.emit(LoginRefused(address=address, path=request.url.path, wrong=count, is_last=count >= MOST_WRONG))
        return role

    def _role_of(self, token: str) -> str | None:
        tokens, given = self.tokens or Tokens(), token.encode(errors="replace")
        found: str | None = None
        for role, secret in (("observer", tokens.observer), ("viewer", tokens.viewer), ("operator", tokens.operator)):
            if secret is not None and hmac.compare_digest(secret.encode(), given):
                found = role
        return found

    def _session_in(self, cookie: str) -> tuple[str, int, str] | None:
        """The role, the end and the name of the session whose cookie this is; None for one that is over, or not ours."""
        text, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(self._sign(text).encode(), signature.encode(errors="replace")):
            return None
        role, until, session = text.split(".")
        is_live = int(until) > time.time() and getattr(self.tokens, role, None) is not None
        return (role, int(until), session) if is_live else None

    def _sign(self, text: str) -> str:
        tokens = self.tokens or Tokens()
        key = hashlib.sha256(
            f"asyncjobs dashboard session\0{tokens.operator}\0{tokens.viewer}\0{tokens.observer}".encode()
        ).digest()
        return hmac.new(key, text.encode(errors="replace"), hashlib.sha256).hexdigest()


def _checked_tokens(auth: Auth | None) -> Tokens | None:
    tokens = Tokens(operator=auth) if isinstance(auth, str) else auth
    if not isinstance(tokens, Tokens):
        return None
    given = [token for token in (tokens.operator, tokens.viewer, tokens.observer) if token is not None]
    if not given:
        raise ConfigurationError("Tokens() lets nobody in: say operator=, viewer= or observer=.")
    if any(len(token) < _SHORTEST or not token.isprintable() for token in given):
        raise ConfigurationError(f"a token has at least {_SHORTEST} characters: `secrets.token_urlsafe()` makes one.")
    if len(set(given)) != len(given):
        raise ConfigurationError("the tokens of operators, viewers and observers are the same.")
    return tokens


def _local(request: Request) -> Viewer:
    through = [name for name in _BY_PROXIES if name in request.headers]
    host = request.client.host if request.client is not None else ""
    if through or not _is_loopback(host) or not _is_loopback(request.url.hostname or ""):
        raise Refused(403, "Without auth= the dashboard answers on this machine only, under localhost, and through no proxy.")
    return Viewer("anonymous")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
