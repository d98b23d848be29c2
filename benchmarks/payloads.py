"""The values of the records. Codec speed differs by a factor of ten between kinds, so rows name theirs.

Both kinds are JSON; the percentages are those of half a megabyte:

- ``fields``: field names and random hexadecimal digits. Only the names repeat: LZ4 leaves 61 %, and is slow.
- ``events``: page views of a shop, with random identifiers, times, addresses, and values from small sets
  (pages, browsers, countries, experiments). LZ4 leaves 32 %.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from typing import Any

_TYPES = ("page_view", "page_view", "page_view", "click", "search", "add_to_cart", "purchase")
_CATEGORIES = ("books", "garden", "kitchen", "music", "outdoor", "shoes", "tools")
_ADJECTIVES = ("black", "classic", "compact", "deluxe", "folding", "large", "light", "pocket", "steel")
_THINGS = ("backpack", "bottle", "chair", "guitar", "hammer", "kettle", "lamp", "novel", "puzzle", "tent")
_SYSTEMS = (
    "Windows NT 10.0; Win64; x64",
    "Macintosh; Intel Mac OS X 10_15_7",
    "X11; Linux x86_64",
    "iPhone; CPU iPhone OS 18_1 like Mac OS X",
    "Linux; Android 15; Pixel 9",
)
_PLACES = (("DE", "Hamburg"), ("FR", "Lyon"), ("US", "Denver"), ("BR", "Recife"), ("IN", "Pune"))
_LANGUAGES = ("de-DE", "fr-FR", "en-US", "pt-BR", "en-IN")
_REFERRERS = ("", "https://search.example/", "https://shop.example/", "https://news.example/today")


def fields(source: random.Random, size: int) -> bytes:
    """``size`` bytes of fields with random digits."""
    value = b'{"id":"%s","event":"page_view","user":%d,' % (
        source.randbytes(8).hex().encode(),
        source.randrange(10**6),
    )
    while len(value) < size:
        value += b'"field_%d":"%s",' % (source.randrange(8), source.randbytes(6).hex().encode())
    return value[:size]


def event(source: random.Random, size: int) -> bytes:
    """An event of a shop, with enough products for ``size`` bytes."""
    country, city = source.choice(_PLACES)
    version = source.randrange(120, 132)
    product = _product(source)
    value: dict[str, Any] = {
        "event_id": str(uuid.UUID(bytes=source.randbytes(16), version=4)),
        "type": source.choice(_TYPES),
        "time": f"2026-03-{source.randrange(1, 29):02}T{source.randrange(24):02}:{source.randrange(60):02}:"
        f"{source.randrange(60):02}.{source.randrange(1000):03}Z",
        "session_id": source.randbytes(12).hex(),
        "user_id": source.randrange(10**7),
        "url": f"https://shop.example/{product['category']}/{product['slug']}-{product['sku']}",
        "referrer": source.choice(_REFERRERS),
        "user_agent": f"Mozilla/5.0 ({source.choice(_SYSTEMS)}) AppleWebKit/537.36 (KHTML, like Gecko) "
        f"Chrome/{version}.0.0.0 Safari/537.36",
        "client_ip": ".".join(str(source.randrange(1, 255)) for _ in range(4)),
        "geo": {"country": country, "city": city},
        "language": source.choice(_LANGUAGES),
        "experiments": {name: source.choice("AB") for name in ("checkout", "ranking", "banner")},
        "load_ms": source.randrange(40, 4000),
        "products": [product],
    }
    encoded = _json(value)
    while len(encoded) < size:
        value["products"].append(_product(source))
        encoded = _json(value)
    return encoded[:size]


def _product(source: random.Random) -> dict[str, Any]:
    return {
        "sku": source.randrange(10**8),
        "category": source.choice(_CATEGORIES),
        "slug": f"{source.choice(_ADJECTIVES)}-{source.choice(_THINGS)}",
        "price_cents": source.randrange(100, 50_000),
        "quantity": source.randrange(1, 4),
    }


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


#: The functions by the names that workloads use.
PAYLOADS: dict[str, Callable[[random.Random, int], bytes]] = {"fields": fields, "events": event}
