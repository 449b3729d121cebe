"""A browser without a face: it keeps cookies, follows redirects of forms, and knows the forms of the page it is on."""

from html.parser import HTMLParser
from typing import Any, Self

import httpx

ORIGIN = "http://localhost"


class _Reader(HTMLParser):
    """What a page has: hidden fields of its forms, its text, and its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.csrf = ""
        self.text: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append((tag, given))
        if tag == "input" and given.get("name") == "csrf":
            self.csrf = given.get("value") or self.csrf

    def handle_data(self, data: str) -> None:
        self.text.append(data)


class Page:
    """An answer."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.html = response.text
        self.url = response.url
        reader = _Reader()
        reader.feed(self.html)
        self.csrf = reader.csrf
        self.elements = reader.elements
        self.text = " ".join(" ".join(reader.text).split())

    def having(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        """The elements of this name with these attributes."""
        return [found for name, found in self.elements if name == tag and attributes.items() <= found.items()]


class Browser:
    """Looks at an ASGI app under http://localhost, from 127.0.0.1 unless told otherwise."""

    def __init__(self, app: Any, *, base: str = ORIGIN, client: str = "127.0.0.1", headers: dict[str, str] | None = None) -> None:
        transport = httpx.ASGITransport(app=app, client=(client, 5000), raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url=base, headers=headers)
        self.csrf = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.http.aclose()

    async def get(self, path: str, **options: Any) -> Page:
        page = Page(await self.http.get(path, **options))
        self.csrf = page.csrf or self.csrf
        return page

    async def send(self, verb: str, fields: Any = (), **options: Any) -> Page:
        """Send a form as a page of ours would, and follow to where that leads."""
        if not self.csrf:
            await self.get("/queues")
        pairs = [("csrf", self.csrf), *(fields.items() if isinstance(fields, dict) else fields)]
        headers = {"origin": str(self.http.base_url.copy_with(path="")).rstrip("/")}
        response = await self.http.post(
            verb if verb.startswith("/") else f"/do/{verb}",
            data=_as_form(pairs),
            headers=headers | options.pop("headers", {}),
            **options,
        )
        if response.next_request is not None:
            response = await self.http.send(response.next_request)
        page = Page(response)
        self.csrf = page.csrf or self.csrf
        return page


def _as_form(pairs: list[tuple[str, Any]]) -> dict[str, list[str]]:
    form: dict[str, list[str]] = {}
    for name, value in pairs:
        form.setdefault(name, []).append(str(value))
    return form
