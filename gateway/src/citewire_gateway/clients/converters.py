"""Between the domain and the contracts' messages; nothing else in the gateway knows both for reading and asking."""

from collections.abc import Mapping, Sequence
from typing import Literal

from citewire.common.v1 import common_pb2, place_pb2
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import filter_pb2, retriever_pb2
from google.protobuf import json_format, struct_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from citewire_gateway.clients.domain import (
    All,
    AnyOf,
    Chunk,
    Comparison,
    Filter,
    Hit,
    Json,
    Not,
    Operator,
    Plan,
    Scope,
    ScopeCounts,
    ScopeLevel,
    SearchMode,
    SearchQuery,
    Space,
    Strategy,
)
from citewire_gateway.clients.generation import (
    AnswerPolicy,
    Completed,
    ContextFormat,
    GenerateQuery,
    Grounding,
    MarkerStyle,
    Message,
    Notice,
    Packed,
    RewriteKind,
    Started,
    TokenUsage,
)
from citewire_gateway.clients.verified import Span, Uncited, Verdict, Verified

_LEVELS: Mapping[ScopeLevel, retriever_pb2.ScopeLevel] = {
    ScopeLevel.ORG: retriever_pb2.SCOPE_LEVEL_ORG,
    ScopeLevel.USER: retriever_pb2.SCOPE_LEVEL_USER,
}
STRATEGIES: Mapping[Strategy, retriever_pb2.Strategy] = {
    Strategy.SEMANTIC: retriever_pb2.STRATEGY_SEMANTIC,
    Strategy.LIBRARY: retriever_pb2.STRATEGY_LIBRARY,
}
_MODES: Mapping[SearchMode, retriever_pb2.SearchMode] = {
    SearchMode.DENSE: retriever_pb2.SEARCH_MODE_DENSE,
    SearchMode.LEXICAL: retriever_pb2.SEARCH_MODE_LEXICAL,
    SearchMode.HYBRID: retriever_pb2.SEARCH_MODE_HYBRID,
}
_OPERATORS: Mapping[Operator, filter_pb2.Operator] = {
    Operator.EQ: filter_pb2.OPERATOR_EQ,
    Operator.NE: filter_pb2.OPERATOR_NE,
    Operator.IN: filter_pb2.OPERATOR_IN,
    Operator.LT: filter_pb2.OPERATOR_LT,
    Operator.LE: filter_pb2.OPERATOR_LE,
    Operator.GT: filter_pb2.OPERATOR_GT,
    Operator.GE: filter_pb2.OPERATOR_GE,
    Operator.CONTAINS: filter_pb2.OPERATOR_CONTAINS,
    Operator.EXISTS: filter_pb2.OPERATOR_EXISTS,
}
_FORMATS: Mapping[ContextFormat, generator_pb2.ContextFormat] = {
    ContextFormat.NUMBERED: generator_pb2.CONTEXT_FORMAT_NUMBERED,
    ContextFormat.SOURCE_LABELS: generator_pb2.CONTEXT_FORMAT_SOURCE_LABELS,
    ContextFormat.TYPED: generator_pb2.CONTEXT_FORMAT_TYPED,
    ContextFormat.PLAIN: generator_pb2.CONTEXT_FORMAT_PLAIN,
}
_MARKERS: Mapping[MarkerStyle, generator_pb2.MarkerStyle] = {
    MarkerStyle.NONE: generator_pb2.MARKER_STYLE_NONE,
    MarkerStyle.REMOVE: generator_pb2.MARKER_STYLE_REMOVE,
    MarkerStyle.REF: generator_pb2.MARKER_STYLE_REF,
    MarkerStyle.SOURCE: generator_pb2.MARKER_STYLE_SOURCE,
}
_VERDICTS: Mapping[generator_pb2.Verdict, Verdict] = {
    generator_pb2.VERDICT_SUPPORTED: Verdict.SUPPORTED,
    generator_pb2.VERDICT_PARTIAL: Verdict.PARTIAL,
    generator_pb2.VERDICT_UNSUPPORTED: Verdict.UNSUPPORTED,
}
REWRITES: Mapping[RewriteKind, generator_pb2.RewriteKind] = {
    RewriteKind.CONDENSE: generator_pb2.REWRITE_KIND_CONDENSE,
    RewriteKind.HYDE: generator_pb2.REWRITE_KIND_HYDE,
}
_GROUNDINGS: Mapping[Grounding, generator_pb2.Grounding] = {
    Grounding.STRICT: generator_pb2.GROUNDING_STRICT,
    Grounding.SAY_SO: generator_pb2.GROUNDING_SAY_SO,
    Grounding.OPEN: generator_pb2.GROUNDING_OPEN,
}
# Fields of a place, and their names in JSON.
_PLACE_FIELDS: Mapping[Literal["page", "row", "start_line", "end_line"], str] = {
    "page": "page_number",
    "row": "row_number",
    "start_line": "start_line",
    "end_line": "end_line",
}


def space_message(space: Space) -> common_pb2.EmbeddingSpace:
    """A space as a message."""
    return common_pb2.EmbeddingSpace(model=space.model, revision=space.revision, dimensions=space.dimensions)


def space_of(message: common_pb2.EmbeddingSpace) -> Space:
    """A space from its message."""
    return Space(message.model, message.revision, message.dimensions)


def scope_message(scope: Scope) -> retriever_pb2.Scope:
    """A scope as a message; an empty selection stays an empty selection."""
    message = retriever_pb2.Scope(level=_LEVELS[scope.level], collection=scope.collection, types=scope.types)
    if scope.document_ids is not None:
        message.selection.CopyFrom(retriever_pb2.DocumentSelection(document_ids=scope.document_ids))
    if scope.filter is not None:
        message.filter.CopyFrom(filter_message(scope.filter))
    return message


def filter_message(condition: Filter) -> filter_pb2.Filter:
    """A filter as a message."""
    match condition:
        case All(members=members):
            return filter_pb2.Filter(all=filter_pb2.FilterList(filters=[filter_message(one) for one in members]))
        case AnyOf(members=members):
            return filter_pb2.Filter(any=filter_pb2.FilterList(filters=[filter_message(one) for one in members]))
        case Not(member=member):
            message = filter_pb2.Filter()
            getattr(message, "not").CopyFrom(filter_message(member))  # `not` is a keyword of Python
            return message
        case Comparison(field=field, op=op, value=value):
            comparison = filter_pb2.Comparison(field=field, op=_OPERATORS[op], value=value_message(value))
            return filter_pb2.Filter(comparison=comparison)


def value_message(value: Json) -> struct_pb2.Value:
    """A JSON value as a message."""
    match value:
        case None:
            return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
        case bool():
            return struct_pb2.Value(bool_value=value)
        case int() | float():
            return struct_pb2.Value(number_value=float(value))
        case str():
            return struct_pb2.Value(string_value=value)
        case Mapping():
            return struct_pb2.Value(struct_value=struct_message(value))
        case _:
            members = [value_message(one) for one in value]
            return struct_pb2.Value(list_value=struct_pb2.ListValue(values=members))


def struct_message(value: Mapping[str, Json]) -> struct_pb2.Struct:
    """A JSON object as a message."""
    return struct_pb2.Struct(fields={key: value_message(one) for key, one in value.items()})


def plan_of(message: retriever_pb2.PlanResponse) -> Plan:
    """A plan from its message."""
    return Plan(
        path=retriever_pb2.ContextPath.Name(message.path).removeprefix("CONTEXT_PATH_").lower(),
        reason=message.reason,
        counts=counts_of(message.counts),
        space=space_of(message.space) if message.HasField("space") else None,
        answerable_threshold=message.calibration.answerable_threshold
        if message.calibration.HasField("answerable_threshold")
        else None,
    )


def counts_of(message: retriever_pb2.ScopeCounts) -> ScopeCounts:
    """Counts over a scope from their message."""
    return ScopeCounts(
        items=message.items,
        kept=message.kept,
        trimmed=message.trimmed,
        without_embedding=message.without_embedding,
        not_ready=message.not_ready,
        chunks=message.chunks,
    )


def search_message(query: SearchQuery) -> retriever_pb2.SearchRequest:
    """A search as a message."""
    group_by = retriever_pb2.GROUP_BY_DOCUMENT if query.by_document else retriever_pb2.GROUP_BY_CHUNK
    message = retriever_pb2.SearchRequest(
        scope=scope_message(query.scope),
        mode=_MODES[query.mode],
        query=query.query,
        top_k=query.top_k,
        group_by=group_by,
    )
    if query.vector is not None:
        message.vector = query.vector.data
        message.space.CopyFrom(space_message(query.vector.space))
    if query.min_score is not None:
        message.min_score = query.min_score
        message.min_score_calibrated = query.min_score_calibrated
    if query.recent:
        message.recent = query.recent
    if query.dense_weight is not None:
        message.dense_weight = query.dense_weight
    if query.diversity:
        message.diversity = query.diversity
    message.keep_duplicates = query.keep_duplicates
    message.fuse_by_rank = query.fuse_by_rank
    return message


def hits_of(message: retriever_pb2.SearchResponse) -> tuple[Hit, ...]:
    """A search's results."""
    return tuple(
        Hit(
            chunk=chunk_of(result.chunk),
            score=result.rank_score,
            similarity=result.score if result.HasField("score") else None,
            lexical_score=result.lexical_score if result.HasField("lexical_score") else None,
            recent=result.recent,
            duplicate_ids=tuple(result.duplicate_chunk_ids),
        )
        for result in message.results
    )


def chunk_of(message: retriever_pb2.Chunk) -> Chunk:
    """A chunk from its message."""
    return Chunk(
        chunk_id=message.chunk_id,
        document_id=message.document_id,
        version=message.version,
        chunk_index=message.chunk_index,
        text=message.text,
        title=message.title,
        file_name=message.file_name,
        url=message.url,
        type=message.type,
        section=message.section,
        **place_fields(message.place),
        char_start=message.char_start,
        char_end=message.char_end,
        token_count=message.token_count,
        content_hash=message.content_hash,
        created_at=time_of(message.created_at) if message.HasField("created_at") else None,
        live=message.live,
        verbatim=message.verbatim,
        metadata=json_format.MessageToDict(message.metadata) if message.HasField("metadata") else {},
    )


def place_fields(place: place_pb2.Place) -> dict[str, int]:
    """A place under its names in JSON; what is unset is left out."""
    return {name: getattr(place, field) for field, name in _PLACE_FIELDS.items() if place.HasField(field)}


def time_of(message: Timestamp) -> str:
    """A time as RFC 3339."""
    return message.ToJsonString()


def generate_message(query: GenerateQuery) -> generator_pb2.GenerateRequest:
    """What the generator is asked, as a message."""
    return generator_pb2.GenerateRequest(
        question=query.question,
        passages=passage_messages(query.passages),
        history=history_messages(query.history),
        policy=_policy_message(query.policy),
        model=query.model,
        max_completion_tokens=query.max_completion_tokens,
    )


def history_messages(history: Sequence[Message]) -> list[generator_pb2.Message]:
    """Earlier messages, in the same order."""
    return [
        generator_pb2.Message(
            role=generator_pb2.ROLE_USER if message.role == "user" else generator_pb2.ROLE_ASSISTANT,
            content=message.content,
        )
        for message in history
    ]


def passage_messages(hits: Sequence[Hit]) -> list[generator_pb2.Passage]:
    """Hits as passages, in the same order."""
    return [
        generator_pb2.Passage(
            chunk_id=hit.chunk.chunk_id,
            document_id=hit.chunk.document_id,
            text=hit.chunk.text,
            title=hit.chunk.title,
            file_name=hit.chunk.file_name,
            section=hit.chunk.section,
            type=hit.chunk.type,
            url=hit.chunk.url,
            place_label=_place(hit.chunk),
            similarity=hit.similarity,
            token_count=hit.chunk.token_count,
        )
        for hit in hits
    ]


def started_of(message: generator_pb2.Started) -> Started:
    """The generation's start from its message."""
    packed = tuple(Packed(one.number, one.passage_index) for one in message.citations)
    return Started(message.provider, message.model, packed)


def notice_of(message: generator_pb2.Notice) -> Notice:
    """What a user may want to know, from its message."""
    return Notice(message.name, message.text, message.provider, message.model)


def verified_of(message: generator_pb2.VerifiedCitation) -> Verified:
    """What a passage says about a sentence, from its message."""
    return Verified(
        sentence=_span_of(message.sentence),
        number=message.number,
        quote=message.quote,
        quote_start=message.quote_start,
        quote_end=message.quote_end,
        support=message.support,
        verdict=_VERDICTS[message.verdict],
        sentence_verdict=_VERDICTS[message.sentence_verdict],
        mismatches=tuple(message.mismatches),
    )


def uncited_of(message: generator_pb2.UncitedSentence) -> Uncited:
    """A sentence that cites nothing, from its message."""
    return Uncited(_span_of(message.sentence))


def _span_of(message: generator_pb2.AnswerSpan) -> Span:
    return Span(message.start, message.end)


def completed_of(message: generator_pb2.Completed) -> Completed:
    """The generation's end from its message."""
    return Completed(
        usage=usage_of(message.usage),
        finish_reason=generator_pb2.FinishReason.Name(message.finish_reason).removeprefix("FINISH_REASON_").lower(),
        not_found=message.not_found,
        suggested_questions=message.suggested_questions,
        invalid_markers=message.invalid_markers,
        cited=tuple(message.cited_numbers),
        provider=message.provider,
        model=message.model,
        attempts=message.attempts,
        answerable_score=message.answerable_score if message.HasField("answerable_score") else None,
    )


def usage_of(message: generator_pb2.TokenUsage) -> TokenUsage:
    """Tokens from their message."""
    return TokenUsage(message.prompt_tokens, message.completion_tokens, message.estimated)


def _place(chunk: Chunk) -> str:
    """Page, row or line as a person would say it."""
    if chunk.page_number is not None:
        return f"p. {chunk.page_number}"
    if chunk.row_number is not None:
        return f"row {chunk.row_number}"
    return f"line {chunk.start_line}" if chunk.start_line is not None else ""


def _policy_message(policy: AnswerPolicy) -> generator_pb2.AnswerPolicy:
    return generator_pb2.AnswerPolicy(
        context_format=_FORMATS[policy.context_format],
        marker_style=_MARKERS[policy.marker_style],
        grounding=_GROUNDINGS[policy.grounding],
        answer_language=policy.answer_language,
        not_found_sentence=policy.not_found_sentence,
        suggest_on_not_found=policy.suggest_on_not_found,
        ask_back=policy.ask_back,
        max_context_tokens=policy.max_context_tokens,
        max_context_chars=policy.max_context_chars,
        max_history_tokens=policy.max_history_tokens,
        instructions=policy.instructions,
        verify_citations=policy.verify_citations,
        flag_uncited=policy.flag_uncited,
        answerable_threshold=policy.answerable_threshold,
    )
