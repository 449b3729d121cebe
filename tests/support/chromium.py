"""Chromium, driven as a person would use it, and what a page has to be for everybody to be able to use it."""

import asyncio
import importlib
import os
import re
import socket
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

#: Where pictures of pages are kept: outside of the repository.
PICTURES = Path(os.environ.get("ASYNCJOBS_ARTEFACTS") or Path(tempfile.gettempdir()) / "asyncjobs-pictures")

# What is wrong with a page, as sentences: names, labels, identities, headings, contrast (WCAG 2.1 AA).
_FAULTS = r"""() => {
  const faults = [];
  const shown = (one) => one.checkVisibility({ visibilityProperty: true }) && one.getClientRects().length > 0;
  const say = (one, what) => faults.push(`${what}: ${one.outerHTML.slice(0, 120)}`);
  const nameOf = (one) => (one.getAttribute("aria-label") || one.textContent || "").trim()
    || [...(one.labels || [])].map((label) => label.textContent.trim()).join(" ")
    || document.getElementById(one.getAttribute("aria-labelledby") || "")?.textContent || "";
  const named = "a[href], button, input:not([type=hidden]), select, [tabindex='0'], svg[role=img]";
  for (const one of document.querySelectorAll(named))
    if (shown(one) && !nameOf(one)) say(one, "has no name");
  for (const one of document.querySelectorAll("img")) if (!one.hasAttribute("alt")) say(one, "has no alt");
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of new Set(ids))
    if (ids.filter((other) => other === id).length > 1) faults.push(`id ${id} is not unique`);
  for (const one of document.querySelectorAll("[aria-labelledby]"))
    if (!document.getElementById(one.getAttribute("aria-labelledby"))) say(one, "labelled by nothing");
  if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
  if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
  if (!document.documentElement.lang) faults.push("no language");
  for (const table of document.querySelectorAll("table")) if (!table.querySelector("th[scope]")) say(table, "has no headings");
  for (const one of document.querySelectorAll(".scroll"))
    if (shown(one) && one.scrollWidth > one.clientWidth && one.tabIndex !== 0) say(one, "scrolls for the mouse only");

  const numbers = (text) => {
    const found = (text.match(/[\d.]+/g) || []).map(Number);
    const times = text.startsWith("color(") ? 255 : 1;
    return [...found.slice(0, 3).map((part) => part * times), found[3] ?? 1];
  };
  const over = (top, below) => top.slice(0, 3).map((part, index) => part * top[3] + below[index] * (1 - top[3]));
  const behind = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) layers.push(numbers(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => (layer.length < 4 ? below : over(layer, below)), [255, 255, 255]);
  };
  const linear = (part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const light = (colour) => colour.slice(0, 3).map(linear)
    .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || seen.has(one) || !shown(one)) continue;
    seen.add(one);
    if (one.closest(".unseen, .skip, svg, script, option")) continue;
    const style = getComputedStyle(one), under = behind(one);
    const pair = [light(over(numbers(style.color), under)), light(under)].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < needed) say(one, `contrast ${ratio.toFixed(2)}`);
  }
  return faults;
}"""


class Person:
    """Somebody with a browser. What goes wrong in it is noted in `troubles`."""

    def __init__(self, page: Any, base: str) -> None:
        self.page = page
        self.base = base
        self.troubles: list[str] = []
        page.on("console", lambda message: self._note(message.text) if message.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on("dialog", lambda dialog: self._note(f"a dialog: {dialog.message}"))
        page.on("request", lambda request: None if request.url.startswith(base) else self._note(f"asked {request.url}"))

    def _note(self, trouble: str) -> None:
        # A page that answers 4xx is one that a test asked for.
        if not re.search(r"the server responded with a status of 4\d\d", trouble):
            self.troubles.append(trouble)

    async def goes(self, path: str) -> None:
        """To a page of the dashboard, which is there, and moves if it does."""
        await self.page.goto(self.base + path, wait_until="load")

    async def clicks(self, button: str, *, within: str = "main", exact: bool = True) -> None:
        """The first button of this name."""
        await self.page.locator(within).get_by_role("button", name=button, exact=exact).first.click()
        await self.page.wait_for_load_state("load")

    async def confirms(self) -> None:
        """Answers the question that a verb asked."""
        assert await self.page.get_by_role("heading", level=1).inner_text() == "Are you sure?"
        await self.page.locator("button[name=sure]").click()
        await self.page.wait_for_load_state("load")

    async def told(self) -> str:
        """What a verb said when it was done."""
        return str(await self.page.locator(".say[role=status]").inner_text())

    async def faults(self) -> list[str]:
        """What is wrong with the page."""
        found: list[str] = await self.page.evaluate(_FAULTS)
        width = await self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return found + ([f"{width} px too wide"] if width > 0 else [])

    async def takes_a_picture(self, name: str) -> Path:
        """Of the whole page."""
        path = PICTURES / f"{name}.png"
        await self.page.screenshot(path=path, full_page=True)  # it makes the folder
        return path


@asynccontextmanager
async def chromium() -> AsyncGenerator[Any]:
    """Debian's browser."""
    playwright: Any = importlib.import_module("playwright.async_api")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def serving(app: Any) -> AsyncGenerator[tuple[str, uvicorn.Server]]:
    """The app on a port of its own."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", proxy_headers=False))
    listener = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def somebody(chrome: Any, base: str, **settings: Any) -> AsyncGenerator[Person]:
    """With a browser of this kind, in which nothing went wrong at the end."""
    context = await chrome.new_context(**({"viewport": {"width": 1440, "height": 900}} | settings))
    context.set_default_timeout(20_000)
    person = Person(await context.new_page(), base)
    try:
        yield person
        assert person.troubles == []
    finally:
        await context.close()
