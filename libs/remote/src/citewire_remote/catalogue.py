"""What is known of models: windows, limits and prices, as data (`catalogue.toml`) that an operator can override."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, cast

from citewire_kit.errors import StartupError
from citewire_ledger.model import Price
from citewire_remote.kinds import ProviderType

ANY: Final = "*"
"""Name of the entry that stands for all other models of its provider and type."""

MAX_PRICE: Final = 1_000_000
"""Above any model's; a larger one is a price per something else."""

_DATED: Final = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})\Z")
_COUNTS: Final = ("context_window", "max_completion_tokens", "max_input_tokens", "dimensions")
_PRICES: Final = ("input", "cached_input", "cache_write", "output")
_TEXTS: Final = ("provider", "type", "name")


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """One model. Zero means unknown."""

    provider: str
    name: str
    type: ProviderType = ProviderType.CHAT
    context_window: int = 0
    """Most tokens of a prompt."""
    max_completion_tokens: int = 0
    """Most tokens of a completion."""
    max_input_tokens: int = 0
    """Most tokens of one input of an embedding model."""
    dimensions: int = 0
    """Length of its vectors."""
    price: Price | None = None
    """None if it isn't known."""


class Catalogue:
    """Finds models.

    Args:
        models: Of several with the same provider, type and name, the last one counts.
    """

    def __init__(self, models: Iterable[CatalogueModel]) -> None:
        self._models = {(model.provider, model.type, model.name): model for model in models}

    def __len__(self) -> int:
        return len(self._models)

    def find(self, provider: str, name: str, kind: ProviderType = ProviderType.CHAT) -> CatalogueModel | None:
        """Finds a model by the provider's name for it; None if nothing is known of it.

        A dated snapshot (`gpt-4.1-mini-2025-04-14`) is its family's unless it has an entry of its own, and so is an
        Ollama model with a tag (`nomic-embed-text:v1.5`).
        """
        for candidate in (name, _DATED.sub("", name), name.partition(":")[0], ANY):
            model = self._models.get((provider, kind, candidate))
            if model is not None:
                return model
        return None


def load_catalogue(path: Path | None = None) -> Catalogue:
    """Loads the packaged catalogue, and the operator's over it.

    Raises:
        StartupError: The operator's file can't be read, or isn't of the documented form; the message says where.
    """
    if path is None:
        return Catalogue(_packaged())
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise StartupError(f"the catalogue {path} (CITEWIRE_CATALOGUE) can't be read: {type(exc).__name__}") from exc
    try:
        return Catalogue((*_packaged(), *_parse(text)))
    except ValueError as exc:
        raise StartupError(f"the catalogue {path} (CITEWIRE_CATALOGUE) is malformed: {exc}") from exc


@cache
def _packaged() -> tuple[CatalogueModel, ...]:
    return _parse(files("citewire_remote").joinpath("catalogue.toml").read_text("utf-8"))


def _parse(text: str) -> tuple[CatalogueModel, ...]:
    parsed = tomllib.loads(text, parse_float=Decimal)
    unknown = set(parsed) - {"models"}
    entries: object = parsed.get("models", [])
    if unknown or not isinstance(entries, list):
        raise ValueError("it must hold [[models]] and nothing else")
    return tuple(_model(entry, number) for number, entry in enumerate(cast("list[object]", entries), 1))


def _model(entry: object, number: int) -> CatalogueModel:
    fields: Mapping[str, object] = cast("Mapping[str, object]", entry) if isinstance(entry, dict) else {}
    at = f"entry {number} ({fields.get('provider', '?')}/{fields.get('name', '?')})"
    if unknown := set(fields) - {*_TEXTS, *_COUNTS, *_PRICES}:
        raise ValueError(f"{at}: unknown {', '.join(sorted(unknown))}")
    provider, name, kind = (fields.get(text, "") for text in ("provider", "name", "type"))
    if not isinstance(provider, str) or not isinstance(name, str) or not provider or not name:
        raise ValueError(f"{at}: provider and name are required")
    if (kind or ProviderType.CHAT) not in list(ProviderType):
        raise ValueError(f"{at}: type must be {', '.join(ProviderType)}")
    counts = {count: _count(fields.get(count, 0), f"{at}: {count}") for count in _COUNTS}
    return CatalogueModel(
        provider, name, ProviderType(str(kind or ProviderType.CHAT)), price=_prices(fields, at), **counts
    )


def _prices(fields: Mapping[str, object], at: str) -> Price | None:
    given = {price: _price(fields[price], f"{at}: {price}") for price in _PRICES if price in fields}
    if not given:
        return None
    if "input" not in given:
        raise ValueError(f"{at}: a model with prices needs the price of its input")
    paid = given["input"]
    return Price(
        input=paid,
        cached_input=given.get("cached_input", paid),
        cache_write=given.get("cache_write", paid),
        output=given.get("output", Decimal(0)),
    )


def _count(value: object, at: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{at} must be a whole number")
    return value


def _price(value: object, at: str) -> Decimal:
    price = Decimal(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) else Decimal("nan")
    if not price.is_finite() or not 0 <= price < MAX_PRICE:
        raise ValueError(f"{at} must be USD per million tokens")
    return price
