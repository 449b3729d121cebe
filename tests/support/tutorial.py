"""The files of `examples/shop` in docs/tutorial.md: `python -m tests.support.tutorial` writes them there after a change."""

import re
from typing import Final

from tests.support.pages import ROOT, text_of

NAME: Final = "docs/tutorial.md"
SHOP: Final = ROOT / "examples" / "shop"


def files() -> dict[str, str]:
    """What the shop is made of, by the names that the reader gives it."""
    return {
        f"shop/{file.name}" if file.suffix == ".py" else file.name: file.read_text(encoding="utf-8")
        for file in SHOP.iterdir()
        if file.is_file() and file.name != "__init__.py"
    }


def with_files(page: str) -> str:
    """The page with the files as they are now."""
    current = files()

    def block(found: re.Match[str]) -> str:
        return found[0] if found[2] not in current else f"{found[1]}{current[found[2]]}```"

    return re.sub(r"(`([\w./-]+)`:\n\n```\w+\n).*?^```$", block, page, flags=re.MULTILINE | re.DOTALL)


if __name__ == "__main__":
    (ROOT / NAME).write_text(with_files(text_of(NAME)), encoding="utf-8")
