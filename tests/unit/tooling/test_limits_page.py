"""docs/reference/limits.md has the values in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import AliasChoices, BaseModel

from citewire_dialects import filters, options, schemas
from citewire_dialects.schemas import library, questions, vectors
from citewire_egress import bodies
from citewire_embedder.providers import remote_embedding, remote_rerank
from citewire_gateway.settings import GatewaySettings
from citewire_generator.providers import remote
from citewire_generator.settings import GeneratorSettings
from citewire_http import bodies as http_bodies
from citewire_http.api import parameters
from citewire_kit import channel, nesting
from citewire_kit.plan_limits import DEFAULT_LIMITS, GIB, LimitScope, Measure
from citewire_remote import stream_decoders, transport
from citewire_retriever.converters import checks, documents
from citewire_retriever.converters import tables as table_checks
from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.recognition import MOST_PIXELS
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.ingest.tabular import collector
from citewire_retriever.service.metadata import MAX_URL
from citewire_retriever.settings import RetrieverSettings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "limits.md"
KIB, MIB = 1024, 1024 * 1024
_PLAN_LIMITS = GatewaySettings.model_fields["plan_limits"].validation_alias
assert isinstance(_PLAN_LIMITS, AliasChoices)
PLAN_LIMITS = set(map(str, _PLAN_LIMITS.choices))


def default(settings: type[BaseModel], field: str) -> int:
    return int(str(settings.model_fields[field].default).removesuffix(".0"))


def maximum(settings: type[BaseModel], field: str) -> int:
    return next(int(rule.le) for rule in settings.model_fields[field].metadata if hasattr(rule, "le"))


def by_plan(measure: Measure, unit: int = 1) -> list[int]:
    limits = [measures[measure] for measures in DEFAULT_LIMITS.values()]
    assert all(limit.get(LimitScope.KEY, limit[LimitScope.USER]) == limit[LimitScope.USER] for limit in limits)
    return [limit[scope] // unit for limit in limits for scope in (LimitScope.USER, LimitScope.ORG)]


EXPECTED: dict[str, list[int]] = {
    "file": [default(GatewaySettings, "max_upload_bytes") // MIB],
    "text of a file": [default(WorkerSettings, "max_chars")],
    "typed text (JSON)": [
        default(GatewaySettings, "max_json_bytes") // MIB,
        default(RetrieverSettings, "text_max_bytes") // MIB,
    ],
    "pages of a PDF": [default(WorkerSettings, "max_pages")],
    "rows and other blocks": [ParseLimits().max_blocks],
    "chunks": [default(WorkerSettings, "max_chunks")],
    "CPU time to parse a file": [
        default(WorkerSettings, "parse_cpu_seconds"),
        1,
        default(WorkerSettings, "parse_cpu_seconds_per_mib"),
    ],
    "time to parse a file": [default(WorkerSettings, "parse_seconds")],
    "memory to parse a file": [default(WorkerSettings, "parse_memory_mib")],
    "scanned pages": [
        default(WorkerSettings, "ocr_pages"),
        default(WorkerSettings, "ocr_cpu_seconds"),
        MOST_PIXELS // 1_000_000,
    ],
    "original for [locating a quote](../adr/0031-located-quotes.md)": [
        default(RetrieverSettings, "locate_max_bytes") // MIB,
        default(RetrieverSettings, "locate_seconds"),
    ],
    "original for [table queries](../adr/0041-table-queries.md)": [
        default(RetrieverSettings, "table_max_bytes") // MIB,
        default(RetrieverSettings, "table_seconds"),
    ],
    "table of a query": [collector.MOST_ROWS, collector.MOST_CELLS],
    "table query": [table_checks.MOST_BYTES // 1024, table_checks.MOST_ROWS],
    "located text": [documents.MAX_SPAN],
    "text read for [enrichment](../explanation/enrichment.md) by a model": [
        default(GeneratorSettings, "enrich_tokens")
    ],
    "file name": [checks.MAX_FILE_NAME],
    "path (a file's name with its folders)": [checks.MAX_FILE_PATH],
    "title": [checks.MAX_TITLE],
    "collection": [checks.MAX_COLLECTION],
    "url": [MAX_URL],
    "tags": [checks.MAX_TAGS, checks.MAX_TAG],
    "metadata": [checks.MAX_METADATA_BYTES // KIB, nesting.MAX_METADATA_NESTING],
    "concurrent uploads per gateway": [default(GatewaySettings, "max_uploads")],
    "minimum upload speed": [
        default(GatewaySettings, "upload_bytes_per_second"),
        default(GatewaySettings, "upload_grace_seconds"),
    ],
    "nesting of objects and lists in a body": [http_bodies.MAX_NESTING],
    "body": [default(GatewaySettings, "max_json_bytes") // MIB],
    "question, query": [default(GatewaySettings, "max_question_bytes") // KIB],
    "messages in a request": [questions.MAX_MESSAGES],
    "`document_ids`": [schemas.MAX_DOCUMENT_IDS],
    "filter": [filters.MAX_NODES, filters.MAX_DEPTH, filters.MAX_LIST],
    "instructions": [options.MAX_INSTRUCTIONS_BYTES // KIB],
    "inputs of `/v1/embeddings`": [vectors.MAX_INPUTS],
    "texts of `/v1/rerank`": [vectors.MAX_TEXTS],
    "answer": [default(GeneratorSettings, "max_completion_tokens")],
    "table computation in a chat": [default(GatewaySettings, "tables_seconds")],
    "whole chat": [default(GatewaySettings, "chat_seconds")],
    "`Idempotency-Key`": [parameters.MAX_KEY],
    "request head (URL and headers)": [default(GatewaySettings, "max_header_bytes") // KIB],
    "request headers": [default(GatewaySettings, "max_headers")],
    "request URL": [default(GatewaySettings, "max_url_bytes") // KIB],
    "time for the head": [default(GatewaySettings, "header_seconds")],
    "pause in the body": [default(GatewaySettings, "body_idle_seconds")],
    "idle time between two requests (a load balancer's must be shorter)": [
        default(GatewaySettings, "keep_alive_seconds")
    ],
    "time for the body": [
        default(GatewaySettings, "body_seconds"),
        default(GatewaySettings, "body_bytes_per_second"),
    ],
    "connections": [default(GatewaySettings, "max_connections")],
    "connections per address, or concurrent requests per client of a proxy": [
        default(GatewaySettings, "max_connections_per_address")
    ],
    "error body": [bodies.MAX_ERROR_BODY // KIB, int(bodies.ERROR_BODY_SECONDS)],
    "streamed answer": [transport.MAX_STREAM // MIB],
    "line or event of a streamed answer": [stream_decoders.MAX_LINE // MIB],
    "unstreamed answer": [remote.MAX_WHOLE_BODY // MIB],
    "vectors per call": [remote_embedding.MAX_TEXT_BYTES // KIB],
    "ranking per call": [remote_rerank.MAX_BODY // KIB],
    "`requests` per minute": by_plan(Measure.REQUESTS),
    "`tokens` per minute": by_plan(Measure.TOKENS),
    "concurrent `streams`": by_plan(Measure.STREAMS),
    "`uploads` per hour": by_plan(Measure.UPLOADS),
    "`upload-bytes`, in GiB per hour": by_plan(Measure.UPLOAD_BYTES, GIB),
    "`stored-bytes`, in GiB": by_plan(Measure.STORED_BYTES, GIB),
    "`grace_seconds`: how long a chat [continues without a client](../explanation/runs.md)": [
        maximum(questions.ChatRequest, "grace_seconds"),
        default(questions.ChatRequest, "grace_seconds"),
    ],
    "events of a chat run, stored for resuming": [default(GatewaySettings, "run_events_seconds")],
    "lease of a chat run, after which it counts as lost": [default(GatewaySettings, "run_lease_seconds")],
    "gRPC message": [channel.MAX_MESSAGE_BYTES // MIB],
}


def rows() -> dict[str, tuple[str, str]]:
    cells = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {name.strip(): (value, setting) for name, value, _, setting in cells if name.strip() != "limit"}


def test_every_row_is_checked() -> None:
    assert set(rows()) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_values_are_those_in_the_code(name: str) -> None:
    value, _ = rows()[name]
    assert [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", value)] == EXPECTED[name]


def test_settings_exist() -> None:
    known = {
        f"{settings.model_config.get('env_prefix')}{field}".upper()
        for settings in (GatewaySettings, GeneratorSettings, RetrieverSettings, WorkerSettings)
        for field in settings.model_fields
    } | PLAN_LIMITS
    named = {name for _, setting in rows().values() for name in re.findall(r"CITEWIRE_[A-Z_]+", setting)}
    assert named <= known


def test_both_ends_of_an_upload_agree() -> None:
    assert default(GatewaySettings, "max_upload_bytes") == default(RetrieverSettings, "upload_max_bytes")
    assert default(RetrieverSettings, "max_chars") == default(WorkerSettings, "max_chars") == ParseLimits().max_chars
    single = library.FORM_LENGTHS
    assert (single["path"], single["title"]) == (checks.MAX_FILE_PATH, checks.MAX_TITLE)
    assert (library.MAX_TAGS, library.MAX_TAG) == (checks.MAX_TAGS, checks.MAX_TAG)
