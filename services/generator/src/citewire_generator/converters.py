"""Between the contract and the domain: every field of a request is checked here, and nowhere else.

Requests stay messages: what a field left out means is filled in.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

from citewire.common.v1.common_pb2 import ProviderRef
from citewire.generator.v1 import generator_pb2 as pb
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

from citewire_generator.model import NOT_FOUND_SENTENCE, Event, Message, ModelInfo
from citewire_generator.output_converters import check_message, check_output, check_text
from citewire_generator.prompts import read_message
from citewire_generator.registry import ModelRoute
from citewire_kit.errors import Violations
from citewire_kit.time_zones import find_time_zone
from citewire_remote.converters import ref_from_proto
from citewire_remote.kinds import ProviderType

MAX_QUESTION_BYTES = 32 * 1024
MAX_ANSWER_BYTES = 1024 * 1024
MAX_INSTRUCTIONS_BYTES = 16 * 1024
MAX_SENTENCE = 500
MAX_COMPLETION_TOKENS = 32_768
MAX_PASSAGES = 10_000
MAX_JUDGED = 200
MAX_HISTORY = 1000
MAX_NAME = 200
MAX_FALLBACKS = 4
MAX_VERIFIED_BYTES = 128 * 1024
MAX_VERIFIED_PASSAGES = 1000
MAX_VERIFIED_PASSAGES_BYTES = 4 * 1024 * 1024
MAX_ENRICHED_BYTES = 256 * 1024
MAX_TITLE = 500
MAX_URL = 2048
MAX_LABELS = 100
MAX_LABEL = 128
MAX_TABLES = 10
MAX_CACHE_KEY_BYTES = 1024
CHAT = (ProviderType.CHAT,)
_PASSAGE_TEXTS = tuple(
    (field.name, field.is_repeated)
    for field in pb.Passage.DESCRIPTOR.fields
    if field.type == FieldDescriptor.TYPE_STRING
)
"""Fields of a passage that are texts, and whether each is a list of them."""
_ROUNDING = 1e-6
"""How far a similarity may be outside 0–1, because float32 vectors don't have exactly length 1."""

RoutedRequest: TypeAlias = (
    pb.GenerateRequest
    | pb.SuggestQuestionsRequest
    | pb.DecideRequest
    | pb.AssessRequest
    | pb.JudgeRelevanceRequest
    | pb.RewriteRequest
    | pb.FillTableQueryRequest
    | pb.EnrichRequest
)
"""Requests that select their model."""


def generate_from_proto(request: pb.GenerateRequest) -> tuple[Sequence[Message], ModelRoute]:
    """Checks a request of Generate, fills in its policy's defaults, and returns its history and its models.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    _check_question(v, request.question)
    _check_passages(v, request.passages)
    history = _history_from_proto(v, request.history)
    _complete_policy(v, request.policy)
    if request.HasField("max_completion_tokens"):
        fits = 1 <= request.max_completion_tokens <= MAX_COMPLETION_TOKENS
        v.require(fits, "max_completion_tokens", f"must be between 1 and {MAX_COMPLETION_TOKENS:,}")
    if request.HasField("temperature"):
        v.require(0 <= request.temperature <= 2, "temperature", "must be between 0 and 2")
    v.require(find_time_zone(request.time_zone) is not None, "time_zone", "must be an IANA name such as Europe/Berlin")
    if request.HasField("listing"):
        v.require(request.listing.max_items > 0, "listing.max_items", "is required: at least 1")
        check_text(v, request.listing.topic, "listing.topic", MAX_QUESTION_BYTES)
    check_text(v, request.cache_key, "cache_key", MAX_CACHE_KEY_BYTES)
    check_output(v, request)
    route = _route_from_proto(v, request)
    v.raise_if_any()
    return history, route


def suggest_from_proto(request: pb.SuggestQuestionsRequest) -> ModelRoute:
    """Checks a request of SuggestQuestions, fills in its count, and returns its models.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    check_text(v, request.question, "question", MAX_QUESTION_BYTES)
    v.require(len(request.passages) > 0, "passages", "must contain at least one passage")
    _check_passages(v, request.passages)
    request.count = request.count if request.HasField("count") else 3
    v.require(1 <= request.count <= 10, "count", "must be between 1 and 10")
    v.require(request.minimum <= request.count, "minimum", "must be at most count")
    _check_name(v, request.language, "language")
    route = _route_from_proto(v, request)
    v.raise_if_any()
    return route


def decide_from_proto(request: pb.DecideRequest) -> ModelRoute:
    """Checks a request of Decide and returns its models.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    _check_question(v, request.question)
    route = _route_from_proto(v, request)
    v.raise_if_any()
    return route


def assess_from_proto(request: pb.AssessRequest) -> ModelRoute:
    """Checks a request of Assess and returns its models.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    _check_question(v, request.question)
    if v.require(bool(request.answer.strip()), "answer", "must contain more than white space"):
        check_text(v, request.answer, "answer", MAX_ANSWER_BYTES)
    _check_passages(v, request.passages)
    route = _route_from_proto(v, request)
    v.raise_if_any()
    return route


def relevance_from_proto(request: pb.JudgeRelevanceRequest) -> ModelRoute:
    """Checks a request of JudgeRelevance and returns its models.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    _check_question(v, request.question)
    v.require(len(request.passages) > 0, "passages", "must contain at least one passage")
    _check_passages(v, request.passages, MAX_JUDGED)
    route = _route_from_proto(v, request)
    v.raise_if_any()
    return route


def rewrite_from_proto(request: pb.RewriteRequest) -> tuple[Sequence[Message], ModelRoute]:
    """Checks a request of Rewrite and returns its history and its models.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    _check_enum(v, request.kind, pb.RewriteKind, "kind", required=True)
    _check_question(v, request.question)
    history = _history_from_proto(v, request.history)
    if request.kind == pb.REWRITE_KIND_CONDENSE:
        v.require(len(request.history) > 0, "history", "must contain a message: there is nothing to condense")
    route = _route_from_proto(v, request)
    v.raise_if_any()
    return history, route


def table_query_from_proto(request: pb.FillTableQueryRequest) -> ModelRoute:
    """Checks a request of FillTableQuery and returns its models.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    _check_question(v, request.question)
    v.require(1 <= len(request.tables) <= MAX_TABLES, "tables", f"must be 1 to {MAX_TABLES}")
    for index, each in enumerate(request.tables[:MAX_TABLES]):
        v.require(len(each.table.columns) > 0, f"tables[{index}].table.columns", "must contain at least one column")
    v.require(find_time_zone(request.time_zone) is not None, "time_zone", "must be an IANA name such as Europe/Berlin")
    route = _route_from_proto(v, request)
    v.raise_if_any()
    return route


def enrich_from_proto(request: pb.EnrichRequest) -> ModelRoute:
    """Checks a request of Enrich and returns its models.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    if v.require(bool(request.text.strip()), "text", "must contain more than white space"):
        check_text(v, request.text, "text", MAX_ENRICHED_BYTES)
    for field, longest in (("title", MAX_TITLE), ("url", MAX_URL)):
        value: str = getattr(request, field)
        v.require(len(value) <= longest, field, f"must be at most {longest:,} characters")
        check_text(v, value, field)
    _check_name(v, request.type, "type")
    v.require(len(request.fields) > 0, "fields", "must name at least one")
    v.require(len(set(request.fields)) == len(request.fields), "fields", "must name each once")
    for index, number in enumerate(request.fields):
        _check_enum(v, number, pb.EnrichmentField, f"fields[{index}]", required=True)
    for field in ("entity_types", "categories", "tags"):
        labels: Sequence[str] = getattr(request.labels, field)
        v.require(len(labels) <= MAX_LABELS, f"labels.{field}", f"must be at most {MAX_LABELS}")
        fits = all(0 < len(label) <= MAX_LABEL and "\0" not in label for label in labels[:MAX_LABELS])
        v.require(fits, f"labels.{field}", f"must each have 1–{MAX_LABEL} characters, without NUL")
    route = _route_from_proto(v, request)
    v.raise_if_any()
    return route


def check_verify(request: pb.VerifyRequest) -> None:
    """Checks a request of Verify.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    if v.require(bool(request.answer.strip()), "answer", "must contain more than white space"):
        check_text(v, request.answer, "answer", MAX_VERIFIED_BYTES)
    v.require(len(request.passages) > 0, "passages", "must contain at least one passage")
    fits = sum(len(passage.text.encode()) for passage in request.passages) <= MAX_VERIFIED_PASSAGES_BYTES
    v.require(fits, "passages", f"must be at most {MAX_VERIFIED_PASSAGES_BYTES:,} bytes of UTF-8 in all")
    _check_passages(v, request.passages, MAX_VERIFIED_PASSAGES, identified=False)
    _check_enum(v, request.marker_style, pb.MarkerStyle, "marker_style")
    v.raise_if_any()


def event_to_proto(event: Event) -> pb.GenerateResponse:
    """Returns the response that carries an event of an answer."""
    match event:
        case pb.TextDelta():
            return pb.GenerateResponse(delta=event)
        case pb.Started():
            return pb.GenerateResponse(started=event)
        case pb.Notice():
            return pb.GenerateResponse(notice=event)
        case pb.VerifiedCitation():
            return pb.GenerateResponse(verified_citation=event)
        case pb.UncitedSentence():
            return pb.GenerateResponse(uncited_sentence=event)
        case pb.ToolCallDelta():
            return pb.GenerateResponse(tool_call=event)
        case _:
            return pb.GenerateResponse(completed=event)


def models_to_proto(models: Sequence[ModelInfo]) -> pb.ListModelsResponse:
    """Returns the models; the first is the default."""
    response = pb.ListModelsResponse()
    for index, model in enumerate(models):
        response.models.add(
            provider=model.provider,
            name=model.name,
            is_default=index == 0,
            context_window=model.context_window,
            max_completion_tokens=model.max_completion_tokens,
            remote=model.remote,
        )
    return response


def _route_from_proto(v: Violations, request: RoutedRequest) -> ModelRoute:
    _check_name(v, request.model, "model")
    provider = ref_from_proto(v, request.provider, "provider", CHAT) if request.HasField("provider") else None
    fallbacks = () if isinstance(request, pb.SuggestQuestionsRequest) else request.fallbacks
    v.require(len(fallbacks) <= MAX_FALLBACKS, "fallbacks", f"must be at most {MAX_FALLBACKS}")
    targets: list[str | ProviderRef] = []
    for index, fallback in enumerate(fallbacks[:MAX_FALLBACKS]):
        at = f"fallbacks[{index}]"
        if fallback.HasField("provider"):
            targets.append(ref_from_proto(v, fallback.provider, f"{at}.provider", CHAT))
        elif v.require(bool(fallback.model), at, "must name a model or a provider"):
            _check_name(v, fallback.model, f"{at}.model")
            targets.append(fallback.model)
    return ModelRoute(request.model, provider, targets)


def _history_from_proto(v: Violations, history: Sequence[pb.Message]) -> list[Message]:
    if not v.require(len(history) <= MAX_HISTORY, "history", f"must be at most {MAX_HISTORY} messages"):
        return []
    for index, message in enumerate(history):
        _check_enum(v, message.role, pb.Role, f"history[{index}].role", required=True)
        check_message(v, message, f"history[{index}]")
    return list(map(read_message, history))


def _complete_policy(v: Violations, policy: pb.AnswerPolicy) -> None:
    """Checks a policy and fills in the defaults of missing fields."""
    _check_name(v, policy.answer_language, "policy.answer_language")
    sentence = policy.not_found_sentence
    one_line = len(sentence) <= MAX_SENTENCE and sentence.isprintable() and (not sentence or bool(sentence.strip()))
    v.require(one_line, "policy.not_found_sentence", f"must be one line of at most {MAX_SENTENCE} characters")
    check_text(v, policy.instructions, "policy.instructions", MAX_INSTRUCTIONS_BYTES)
    v.require(0 <= policy.answerable_threshold <= 1, "policy.answerable_threshold", "must be between 0 and 1")
    _check_enum(v, policy.context_format, pb.ContextFormat, "policy.context_format")
    _check_enum(v, policy.marker_style, pb.MarkerStyle, "policy.marker_style")
    for_verify = policy.marker_style == pb.MARKER_STYLE_NUMBER
    v.require(not for_verify, "policy.marker_style", "NUMBER is for Verify only")
    _check_enum(v, policy.grounding, pb.Grounding, "policy.grounding")
    policy.answer_language = policy.answer_language.strip()
    policy.not_found_sentence = sentence.strip() or NOT_FOUND_SENTENCE
    policy.context_format = policy.context_format or pb.CONTEXT_FORMAT_NUMBERED
    policy.marker_style = policy.marker_style or pb.MARKER_STYLE_NONE
    policy.grounding = policy.grounding or pb.GROUNDING_STRICT


def _check_question(v: Violations, question: str) -> None:
    if v.require(bool(question.strip()), "question", "must contain more than white space"):
        check_text(v, question, "question", MAX_QUESTION_BYTES)


def _check_name(v: Violations, text: str, field: str) -> None:
    fits = len(text) <= MAX_NAME and text.isprintable()
    v.require(fits, field, f"must be one line of at most {MAX_NAME} characters")


def _check_enum(v: Violations, value: int, enum: EnumTypeWrapper, field: str, *, required: bool = False) -> None:
    """Checks a value of an enum. Unknown ones arrive as numbers: proto3's enums are open."""
    v.require(not value or value in enum.values(), field, "isn't a value of its enum")
    v.require(bool(value) or not required, field, "is required")


def _check_passages(
    v: Violations, passages: Sequence[pb.Passage], most: int = MAX_PASSAGES, *, identified: bool = True
) -> None:
    """Checks passages, and brings similarities into 0–1; `identified` ones name their chunk and document."""
    if not v.require(len(passages) <= most, "passages", f"must be at most {most}"):
        return
    for index, passage in enumerate(passages):
        at = f"passages[{index}]"
        if identified:
            v.require(passage.chunk_id > 0, f"{at}.chunk_id", "must be positive")
            v.require(passage.document_id > 0, f"{at}.document_id", "must be positive")
        v.require(bool(passage.text.strip()), f"{at}.text", "must contain more than white space")
        for name, repeated in _PASSAGE_TEXTS:
            if not repeated:
                check_text(v, getattr(passage, name), f"{at}.{name}")
                continue
            for number, text in enumerate(getattr(passage, name)):
                check_text(v, text, f"{at}.{name}[{number}]")
        if passage.HasField("similarity"):
            known = math.isfinite(passage.similarity) and -_ROUNDING <= passage.similarity <= 1 + _ROUNDING
            v.require(known, f"{at}.similarity", "must be between 0 and 1")
            passage.similarity = min(max(passage.similarity, 0.0), 1.0)
