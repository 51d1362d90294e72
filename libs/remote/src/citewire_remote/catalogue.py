"""Data on models: windows, limits and prices (`catalogue.toml`), which an operator can override."""

import re
import tomllib
from collections.abc import Iterable
from decimal import Decimal
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from citewire_kit.errors import StartupError
from citewire_ledger.model import Price
from citewire_remote.kinds import ProviderType

ANY: Final = "*"
"""Name of the entry that stands for all other models of its provider and type."""

MAX_PRICE: Final = 1_000_000
"""Above the price of any model; a higher one isn't per million tokens."""

_DATED: Final = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})\Z")
_Count = Annotated[int, Field(strict=True, ge=0)]
_Usd = Annotated[Decimal, Field(ge=0, lt=MAX_PRICE)]

_SAME_MODELS: Final = {"openai-responses": "openai"}
"""Kinds of providers that are another API of the same models."""


class CatalogueModel(BaseModel):
    """One entry of the catalogue. A count of zero means unknown; prices are USD per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: str = Field(min_length=1)
    name: str = Field(min_length=1)
    type: ProviderType = ProviderType.CHAT
    context_window: _Count = 0
    """Maximum tokens of a prompt."""
    max_completion_tokens: _Count = 0
    """Maximum tokens of a completion."""
    max_input_tokens: _Count = 0
    """Maximum tokens of one input of an embedding model."""
    dimensions: _Count = 0
    """Length of an embedding model's vectors."""
    input: _Usd | None = None
    cached_input: _Usd | None = None
    """Price of tokens that the provider read from its cache; defaults to `input`."""
    cache_write: _Usd | None = None
    """Price of tokens that the provider wrote to its cache; defaults to `input`."""
    output: _Usd | None = None

    @model_validator(mode="after")
    def _has_an_input_price(self) -> Self:
        if self.input is None and (self.cached_input, self.cache_write, self.output) != (None, None, None):
            raise ValueError("a model with prices needs the price of its input")
        return self

    @cached_property
    def price(self) -> Price | None:
        """The price; None if it isn't known."""
        if self.input is None:
            return None
        return Price(
            input=self.input,
            cached_input=self.input if self.cached_input is None else self.cached_input,
            cache_write=self.input if self.cache_write is None else self.cache_write,
            output=self.output or Decimal(0),
        )


class Catalogue:
    """Finds models.

    Args:
        models: Of several with the same provider, type and name, the last one is used.
    """

    def __init__(self, models: Iterable[CatalogueModel]) -> None:
        self._models = {(model.provider, model.type, model.name): model for model in models}

    def __len__(self) -> int:
        return len(self._models)

    def find(self, provider: str, name: str, kind: ProviderType = ProviderType.CHAT) -> CatalogueModel | None:
        """Finds a model by the provider's name for it; None if it isn't known.

        A dated snapshot (`gpt-4.1-mini-2025-04-14`), or an Ollama model with a tag (`nomic-embed-text:v1.5`), has the
        entry of its family unless it has its own.
        """
        provider = _SAME_MODELS.get(provider, provider)
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


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    models: tuple[CatalogueModel, ...] = ()


def _parse(text: str) -> tuple[CatalogueModel, ...]:
    try:
        return _File.model_validate(tomllib.loads(text, parse_float=Decimal)).models
    except ValidationError as exc:
        error = exc.errors()[0]
        raise ValueError(f"{'.'.join(map(str, error['loc']))}: {error['msg']}") from exc
