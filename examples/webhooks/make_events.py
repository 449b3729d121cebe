"""Write `events.jsonl`: two thousand events as a shop's systems would send them. The same file every time.

It was made by `python -m examples.webhooks.make_events > examples/webhooks/events.jsonl`.
"""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

COUNT = 2_000
FIRST_AT = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)

#: Destination -> how often it is written to. The receiver refuses everything for the last two.
DESTINATIONS = {
    "nordwind-erp": 14, "lagerhaus-zwei": 11, "tokyo-fulfilment": 9, "paketdienst": 9, "mail-campaigns": 8, "bi-warehouse": 8,
    "loyalty-club": 6, "fraud-watch": 6, "tax-filing": 5, "søk-indeks": 4, "marketplace-es": 4, "marketplace-fr": 4,
    "helpdesk": 3, "returns-portal": 3, "price-monitor": 2, "b2b-partner-koç": 2, "chat-alerts": 2, "archive": 2,
    "old-crm": 1, "vault-audit": 1,
}  # fmt: skip
PEOPLE = [
    "Åsa Lindqvist",
    "José Ñíguez",
    "李小龍",
    "Zoë Faßbender",
    "Oluwaseun Adébáyò",
    "Анна Ковальчук",
    "さくら 田中",
    "Mia O'Neil",
]
CITIES = [
    ("Zürich", "CH"),
    ("Gdańsk", "PL"),
    ("São Paulo", "BR"),
    ("東京", "JP"),
    ("Reykjavík", "IS"),
    ("Łódź", "PL"),
    ("Austin", "US"),
]
GOODS = [
    ("BK-104", "Notizbuch „Möwe“"),
    ("CF-220", "Café crème, 250 g"),
    ("TS-001", "T-shirt «été»"),
    ("MG-77", "Mug ☕"),
    ("PN-9", "Pen, blue"),
]
REVIEWS = ["Great 👍", "Zu spät geliefert …", "とても良い", 'It "just works"\nand ships fast', "¡Perfecto!", "Не подошло", "ok"]

Make = Callable[[Random], dict[str, Any]]


def _customer(random: Random) -> dict[str, Any]:
    city, country = random.choice(CITIES)
    return {"id": random.randrange(10_000, 99_999), "name": random.choice(PEOPLE), "address": {"city": city, "country": country}}


def _lines(random: Random) -> list[dict[str, Any]]:
    return [
        {
            "sku": sku,
            "title": title,
            "quantity": random.randint(1, 4),
            "price": {"amount": random.randint(199, 9_999), "currency": "EUR"},
        }
        for sku, title in random.sample(GOODS, random.randint(1, 3))
    ]


def _order_created(random: Random) -> dict[str, Any]:
    return {"order": {"customer": _customer(random), "lines": _lines(random), "gift": random.random() < 0.1, "note": None}}


def _order_paid(random: Random) -> dict[str, Any]:
    method = random.choice(["card", "invoice", "twint", "paypal"])
    risk = round(random.random(), 4)
    return {"payment": {"method": method, "amount": random.randint(500, 90_000), "currency": "EUR", "risk": risk}}


def _order_shipped(random: Random) -> dict[str, Any]:
    parcels = [_parcel(random) for _ in range(random.randint(1, 2))]
    return {"shipment": {"to": _customer(random)["address"], "parcels": parcels}}


def _parcel(random: Random) -> dict[str, Any]:
    return {"tracking": f"{random.randrange(16**10):010X}", "grams": random.randint(90, 20_000)}


def _customer_updated(random: Random) -> dict[str, Any]:
    return {"customer": _customer(random), "changed": random.sample(["name", "address", "phone", "language"], 2)}


def _stock_low(random: Random) -> dict[str, Any]:
    sku, title = random.choice(GOODS)
    return {"item": {"sku": sku, "title": title}, "left": random.randint(0, 9), "sites": {"zh-1": 0, "gd-2": 0}}


def _review_posted(random: Random) -> dict[str, Any]:
    return {"review": {"stars": random.randint(1, 5), "text": random.choice(REVIEWS), "by": random.choice(PEOPLE)}}


#: Event type -> (how often it happens, what it carries).
KINDS: dict[str, tuple[int, Make]] = {
    "order.created": (30, _order_created),
    "order.paid": (25, _order_paid),
    "order.shipped": (18, _order_shipped),
    "customer.updated": (12, _customer_updated),
    "stock.low": (9, _stock_low),
    "review.posted": (6, _review_posted),
}


def make_events(count: int = COUNT, *, seed: int = 1) -> Iterator[dict[str, Any]]:
    """`count` events, in the order they happened; the same ones for the same seed."""
    random = Random(seed)
    kinds, weights = list(KINDS), [weight for weight, _ in KINDS.values()]
    happened_at = FIRST_AT
    for number in range(1, count + 1):
        happened_at += timedelta(milliseconds=random.randint(5, 4_000))
        kind = random.choices(kinds, weights)[0]
        yield {
            "id": f"evt_{number:05d}_{random.randrange(16**8):08x}",
            "type": kind,
            "destination": random.choices(list(DESTINATIONS), list(DESTINATIONS.values()))[0],
            "happened_at": happened_at.isoformat(),
            "data": KINDS[kind][1](random),
        }


def main() -> None:
    """Write the events to standard output, one JSON object a line."""
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for event in make_events():
        sys.stdout.write(json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
