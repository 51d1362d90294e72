"""Models behind an HTTP API: OpenAI's embeddings, which Ollama, vLLM, TEI, LM Studio and LiteLLM speak too.

OpenAI's SDK makes the calls: its addresses, authentication and errors. Its retries are off, as there is one layer of
them, and the answer's body is read here: vectors as base64 become an array without a Python number for each.
"""

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import httpx2
import numpy as np
import openai
from citewire.common.v1.common_pb2 import EmbeddingSpace
from openai import AsyncOpenAI

from citewire_embedder.providers.base import EmbeddingModel, ModelInfo, Prompts, Purpose, TokenisedText, Vectors
from citewire_embedder.providers.remote_calls import (
    CallLimits,
    ModelSpec,
    RemoteCalls,
    cut_to,
    estimate_tokens,
    read_body,
)
from citewire_kit import metrics as kit_metrics
from citewire_kit.errors import CitewireError, FailedPrecondition, InvalidArgument
from citewire_ledger import Ledger, NoLedger
from citewire_ledger import Purpose as PaidFor
from citewire_remote.breaker import Breakers
from citewire_remote.catalogue import Catalogue
from citewire_remote.failures import as_list, as_mapping, count_of, parse_json
from citewire_remote.kinds import ProviderType

OPERATION: Final = "embeddings"
MAX_TEXT_BYTES: Final = 128 * 1024
"""Bytes of a response per text: a vector of 4,096 dimensions as decimal numbers, plus a fifth."""

BASES: Final[Mapping[str, str]] = MappingProxyType({"openai": "https://api.openai.com/v1"})
_WINDOWS: Final = MappingProxyType({"openai": 8191, "ollama": 2048})
_UNKNOWN_WINDOW: Final = 512
_SHORTENABLE: Final = "text-embedding-3-"
_PROBE: Final = "dimensions"
_SENT: Final = frozenset(
    {
        "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "host",
        "transfer-encoding", "user-agent", "x-stainless-raw-response",
    }
)  # fmt: skip
"""Headers that are sent. The last one tells the SDK not to read the body."""

_MXBAI = "Represent this sentence for searching relevant passages: "
_PROMPTS: Final[Mapping[str, Prompts]] = MappingProxyType(
    {
        "nomic-embed-text": Prompts("search_query: ", "search_document: "),
        "mxbai-embed-large": Prompts(query=_MXBAI),
        "snowflake-arctic-embed": Prompts(query=_MXBAI),
    }
)


@dataclass(frozen=True, slots=True)
class RemoteText(TokenisedText):
    """A text for a remote model. Only the number of its ids is meaningful: it is the estimate."""

    text: str = ""
    """The text to send, including the prompt, cut to the window."""
    purpose: Purpose = Purpose.DOCUMENT


@dataclass(frozen=True, slots=True)
class Answer:
    """A provider's result."""

    vectors: Vectors
    """Shape (texts, dimensions), of length 1 each."""
    tokens: int | None
    """Tokens counted by the provider; None if it reported none."""


class RemoteModel(EmbeddingModel):
    """A model behind an HTTP API.

    Args:
        spec: The model.
        catalogue: Finds its window and price.
        http: Makes the connections; closed by `close`.
        ledger: Keeps a row for each attempt.
        breakers: The process's.
        limits: How it is called.
    """

    def __init__(
        self,
        spec: ModelSpec,
        catalogue: Catalogue,
        http: httpx2.AsyncClient,
        *,
        ledger: Ledger | None = None,
        breakers: Breakers | None = None,
        limits: CallLimits | None = None,
    ) -> None:
        self._spec = spec
        self._known = catalogue.find(spec.kind, spec.model, ProviderType.EMBEDDING)
        base = spec.api_base or BASES.get(spec.kind, "")
        # The SDK requires a key; servers without one ignore it.
        self._client = AsyncOpenAI(api_key=spec.api_key or "none", base_url=base, max_retries=0, http_client=http)
        http.event_hooks = {"request": [_remove_extra_headers]}
        self._limits = limits or CallLimits()
        self._calls = RemoteCalls(
            spec,
            OPERATION,
            known=self._known,
            address=base,
            ledger=ledger or NoLedger(),
            breaker=(breakers or Breakers()).of(self._client, spec.kind),
            limits=self._limits,
        )
        self._prompts = prompts_of(spec.model)
        self._dimensions = spec.dimensions or (self._known.dimensions if self._known else 0)
        self._learning = asyncio.Lock()
        if not spec.own:
            kit_metrics.init_model(provider=spec.kind, model=spec.model, operation=OPERATION, token_types=("input",))

    @property
    def info(self) -> ModelInfo:
        """The model's description; dimensions missing in the catalogue are 0 until `load` has determined them."""
        window = self._spec.window or (self._known.max_input_tokens if self._known else 0)
        return ModelInfo(
            space=EmbeddingSpace(model=self._spec.model, revision=self._spec.kind, dimensions=self._dimensions),
            max_input_tokens=window or _WINDOWS.get(self._spec.kind, _UNKNOWN_WINDOW),
            extra_tokens=max(estimate_tokens(self._prompts.for_purpose(purpose)) for purpose in Purpose),
            precision="",
            provider=self._spec.kind,
        )

    def shortened(self, dimensions: int) -> "RemoteModel | None":
        """Returns the same model with shorter vectors, on the same connections and breaker."""
        shortenable = self._spec.kind == "openai" and self._spec.model.startswith(_SHORTENABLE)
        if not shortenable or self._spec.dimensions or not 0 < dimensions < self._dimensions:
            return None
        shorter = copy(self)
        shorter._spec = replace(self._spec, dimensions=dimensions)
        shorter._dimensions = dimensions
        return shorter

    async def load(self) -> None:
        """Determines the length of the vectors with one call, if it isn't known. May be repeated after a failure.

        Raises:
            CitewireError: The call failed.
        """
        async with self._learning:
            if not self._dimensions:
                (text,) = await self.tokenise([_PROBE], Purpose.DOCUMENT)
                answer = await self._ask([_remote(text)])
                self._dimensions = answer.vectors.shape[1]

    async def tokenise(self, texts: Sequence[str], purpose: Purpose) -> list[TokenisedText]:
        """Adds the prompt before each text, estimates its length, and truncates it."""
        prompt, window = self._prompts.for_purpose(purpose), self.info.max_input_tokens
        tokenised: list[TokenisedText] = []
        for text in texts:
            whole = prompt + text
            total = estimate_tokens(whole)
            sent = whole if total <= window else cut_to(whole, window)
            tokenised.append(RemoteText(range(min(total, window)), total, sent, purpose))
        return tokenised

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimates each text's own tokens."""
        return [estimate_tokens(text) for text in texts]

    async def embed(self, texts: Sequence[TokenisedText]) -> Vectors:
        """Embeds texts; see `embed_counted`."""
        return (await self.embed_counted(texts))[0]

    async def embed_counted(self, texts: Sequence[TokenisedText]) -> tuple[Vectors, int]:
        """Embeds texts in as many requests as the provider's limits need.

        Raises:
            CitewireError: One of `failures`; `INPUT_TOO_LONG` if the provider rejected a text as too long.
        """
        remote = [_remote(text) for text in texts]
        groups = split([len(text.ids) for text in remote], most=self._limits.texts, most_tokens=self._limits.tokens)
        answers = [await self._ask([remote[place] for place in group]) for group in groups]
        vectors = np.concatenate([answer.vectors for answer in answers])
        if self._dimensions and vectors.shape[1] != self._dimensions:
            raise FailedPrecondition(
                f"the embedding provider's vectors have {vectors.shape[1]} dimensions instead of {self._dimensions}",
                reason="PROVIDER_REJECTED",
                metadata={"provider": self._spec.kind},
            )
        tokens = sum(
            answer.tokens if answer.tokens is not None else sum(len(remote[place].ids) for place in group)
            for answer, group in zip(answers, groups, strict=True)
        )
        return vectors, tokens

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    async def _ask(self, texts: Sequence[RemoteText]) -> Answer:
        """Makes one request, with retries."""

        async def send() -> Answer:
            return read_answer(await self._post([text.text for text in texts]), len(texts), self._spec.kind)

        return await self._calls.make(
            send,
            purpose=PaidFor.QUESTION_EMBEDDING if texts[0].purpose is Purpose.QUERY else PaidFor.INGEST,
            texts=len(texts),
            input_tokens=sum(len(text.ids) for text in texts),
        )

    async def _post(self, texts: Sequence[str]) -> bytes:
        spec = self._spec
        async with self._calls.guarded(openai.APIConnectionError):
            try:
                async with self._client.embeddings.with_streaming_response.create(
                    input=list(texts),
                    model=spec.model,
                    encoding_format="base64",
                    dimensions=spec.dimensions or openai.omit,
                    # Without a key, the SDK sends a header with its own placeholder.
                    extra_headers=None if spec.api_key else {"Authorization": openai.omit},
                    timeout=self._limits.timeout(),
                ) as response:
                    return await read_body(
                        response.iter_bytes(), most=MAX_TEXT_BYTES * (len(texts) + 1), kind=spec.kind
                    )
            except openai.APIStatusError as exc:
                raise self._refused(exc.response) from exc

    def _refused(self, response: httpx2.Response) -> CitewireError:
        error = self._calls.refused(response.status_code, response.content, response.headers)
        if error.reason == "CONTEXT_TOO_LONG":
            return InvalidArgument(
                "a text is longer than the embedding model's window", reason="INPUT_TOO_LONG", metadata=error.metadata
            )
        return error


async def _remove_extra_headers(request: httpx2.Request) -> None:
    """Removes what an SDK adds: headers from the environment, and telemetry about this machine."""
    for name in set(request.headers) - _SENT:
        del request.headers[name]


def _remote(text: TokenisedText) -> RemoteText:
    if not isinstance(text, RemoteText):
        raise TypeError("the text was tokenised by another model")
    return text


def prompts_of(model: str) -> Prompts:
    """The prompts of a model, by its name without owner, tag and version."""
    name = model.rpartition("/")[2].partition(":")[0].lower()
    return next((prompts for known, prompts in _PROMPTS.items() if name.startswith(known)), Prompts())


def read_answer(body: bytes, texts: int, provider: str) -> Answer:
    """Reads a response with vectors, as lists or as little-endian float32 in base64.

    Raises:
        FailedPrecondition: It is invalid (`PROVIDER_REJECTED`): a wrong number, length or value of vectors.
    """
    try:
        fields = as_mapping(parse_json(body))
    except ValueError:
        raise _unreadable("isn't JSON", provider) from None
    rows = _rows(fields.get("data"), fields, provider)
    if len(rows) != texts or len({len(row) for row in rows}) != 1:
        raise _unreadable(f"contains {len(rows)} vectors for {texts} texts, or vectors of several lengths", provider)
    vectors = np.stack(rows)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise _unreadable("contains a vector that is zero or not finite", provider)
    usage = as_mapping(fields.get("usage"))
    tokens = usage.get("prompt_tokens", usage.get("total_tokens", fields.get("prompt_eval_count")))
    # A server that doesn't count reports 0.
    return Answer(np.asarray(vectors / lengths, np.float32), count_of(tokens) or None)


def _rows(data: object, fields: object, provider: str) -> list[Vectors]:
    if data is None:
        own = as_mapping(fields)
        rows = as_list(own.get("embeddings")) or [own.get("embedding")]
        return [_row(value, provider) for value in rows]
    entries = [as_mapping(entry) for entry in as_list(data)]
    places = [entry.get("index", place) for place, entry in enumerate(entries)]
    order = {place: entry for place, entry in zip(places, entries, strict=True) if isinstance(place, int)}
    if sorted(order) != list(range(len(entries))):
        raise _unreadable("numbers its vectors wrongly", provider)
    return [_row(order[place].get("embedding"), provider) for place in range(len(entries))]


def _row(value: object, provider: str) -> Vectors:
    try:
        if isinstance(value, str):
            row = np.frombuffer(base64.b64decode(value, validate=True), "<f4").astype(np.float32)
        else:
            row = np.asarray(as_list(value), np.float32)
    except (binascii.Error, ValueError, TypeError, OverflowError):
        raise _unreadable("contains a vector that isn't a list of numbers", provider) from None
    if row.ndim != 1 or not row.size:
        raise _unreadable("contains a vector that isn't a list of numbers", provider)
    return row


def _unreadable(what: str, provider: str) -> CitewireError:
    return FailedPrecondition(
        f"the embedding provider's answer {what}",
        reason="PROVIDER_REJECTED",
        metadata={"provider": provider, "retry": "never"},
    )


def split(lengths: Sequence[int], *, most: int, most_tokens: int) -> list[range]:
    """Splits texts into requests in order, by their token counts; a text above the limit gets its own request."""
    groups: list[range] = []
    start = size = 0
    for place, length in enumerate(lengths):
        if place > start and (place - start == most or size + length > most_tokens):
            groups.append(range(start, place))
            start, size = place, 0
        size += length
    if lengths:
        groups.append(range(start, len(lengths)))
    return groups
