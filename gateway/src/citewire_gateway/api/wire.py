"""How the domain looks in this API's JSON; used by answers, searches and stored messages alike."""

from collections.abc import Mapping
from typing import Any

from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2

from citewire_gateway.chat.events import (
    Assessment,
    Citation,
    Citations,
    ConversationCreated,
    Decision,
    Done,
    Event,
    Sources,
    Step,
    Tokens,
    UncitedSentence,
    Usage,
    VerifiedCitation,
)
from citewire_gateway.chat.run import AnswerDetails

JsonObject = dict[str, Any]

_PLACE_FIELDS = {"page_number": "page", "row_number": "row", "start_line": "start_line", "end_line": "end_line"}
"""Fields of a place in JSON, and their names in the message."""


def name_of(chunk: retriever_pb2.Chunk) -> str:
    """File name, or title where it wasn't a file."""
    return chunk.file_name or chunk.title


def ref_of(chunk: retriever_pb2.Chunk) -> str:
    """Where a chunk is as a person would say it: `file § section`, or the file alone."""
    return f"{name_of(chunk)} § {chunk.section}" if chunk.section else name_of(chunk)


def place_value(chunk: retriever_pb2.Chunk, name: str) -> int | None:
    """One field of a chunk's place, by its name in JSON; None if the format doesn't have it."""
    field: Any = _PLACE_FIELDS[name]
    return getattr(chunk.place, field) if chunk.place.HasField(field) else None


def place_json(chunk: retriever_pb2.Chunk) -> JsonObject:
    """Where a chunk stands in its document; what doesn't apply is left out."""
    place: JsonObject = {}
    if chunk.url:
        place["url"] = chunk.url
    if chunk.section:
        place["section"] = chunk.section
    values = {name: place_value(chunk, name) for name in _PLACE_FIELDS}
    return place | {name: value for name, value in values.items() if value is not None}


def citation_json(citation: Citation) -> JsonObject:
    """One citation; `score` is cosine similarity."""
    chunk = citation.chunk
    return {
        "index": citation.index,
        "chunk_id": chunk.chunk_id,
        "document_id": chunk.document_id,
        "version": chunk.version,
        "title": chunk.title,
        "file_name": chunk.file_name,
        "ref": ref_of(chunk),
        "snippet": citation.snippet,
        "score": score_of(citation.result),
        **place_json(chunk),
    }


def verified_json(event: VerifiedCitation) -> JsonObject:
    """A verified citation; what doesn't apply is left out."""
    verified, chunk = event.verified, event.chunk
    span = event.document_span
    place: JsonObject = {
        "page_number": place_value(chunk, "page_number"),
        "row_number": place_value(chunk, "row_number"),
        "start_line": event.start_line,
        "document_start": span and span[0],
        "document_end": span and span[1],
    }
    return {
        "index": verified.number,
        "sentence": _span_json(verified.sentence),
        "chunk_id": chunk.chunk_id,
        "document_id": chunk.document_id,
        "version": chunk.version,
        **{name: value for name, value in place.items() if value is not None},
        "quote": verified.quote,
        "quote_start": verified.quote_start,
        "quote_end": verified.quote_end,
        "support": round(verified.support, 4),
        "verdict": event.verdict,
        "sentence_verdict": event.sentence_verdict,
        "mismatches": list(verified.mismatches),
    }


def uncited_json(uncited: UncitedSentence) -> JsonObject:
    """A sentence that cites nothing."""
    return {"sentence": _span_json(uncited.sentence)}


def _span_json(span: generator_pb2.AnswerSpan) -> JsonObject:
    return {"start": span.start, "end": span.end}


def result_json(result: retriever_pb2.SearchResult, rerank_score: float | None = None) -> JsonObject:
    """One result of a search."""
    chunk = result.chunk
    scores = {
        "similarity": score_of(result),
        "lexical_score": rounded(result.lexical_score) if result.HasField("lexical_score") else None,
        "rerank_score": rounded(rerank_score),
    }
    duplicates = list(result.duplicate_chunk_ids)
    return {
        "chunk_id": chunk.chunk_id,
        "document_id": chunk.document_id,
        "version": chunk.version,
        "chunk_index": chunk.chunk_index,
        "content": chunk.text,
        "score": rounded(result.rank_score),
        **{name: score for name, score in scores.items() if score is not None},
        **({"duplicate_chunk_ids": duplicates} if duplicates else {}),
        "title": chunk.title,
        "file_name": chunk.file_name,
        **place_json(chunk),
    }


def chunk_json(chunk: retriever_pb2.Chunk) -> JsonObject:
    """A chunk, with all that opens its exact place."""
    return {
        "chunk_id": chunk.chunk_id,
        "document_id": chunk.document_id,
        "version": chunk.version,
        "live": chunk.live,
        "chunk_index": chunk.chunk_index,
        "content": chunk.text,
        "token_count": chunk.token_count,
        "content_hash": chunk.content_hash,
        "char_start": chunk.char_start,
        "char_end": chunk.char_end,
        "title": chunk.title,
        "file_name": chunk.file_name,
        "ref": ref_of(chunk),
        "type": chunk.type,
        **({"created_at": chunk.created_at.ToJsonString()} if chunk.HasField("created_at") else {}),
        **place_json(chunk),
    }


def step_json(step: Step) -> JsonObject:
    """One step; what it doesn't say is left out."""
    shown: JsonObject = {"name": step.name, "text": step.text}
    optional: Mapping[str, object] = {
        "path": step.path,
        "counts": None if step.counts is None else dict(step.counts),
        "reason": step.reason,
    }
    return shown | {name: value for name, value in optional.items() if value is not None}


def usage_json(usage: Usage) -> JsonObject:
    """The three counts; where the profile says more, also the context path and what the chat cost."""
    counts: JsonObject = {
        "embedding_tokens": usage.embedding_tokens,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }
    more = {"path": usage.path, "cost_usd": usage.cost_usd}
    return counts | {name: value for name, value in more.items() if value is not None}


def decision_json(event: Decision) -> JsonObject:
    """Whether the question needs retrieval."""
    return {"needs_retrieval": event.decision.needs_retrieval, "reason": event.decision.reason}


def assessment_json(event: Assessment) -> JsonObject:
    """How good the answer is; `fallback` only where that is not known."""
    assessment = event.assessment
    judgement: JsonObject = {"supported": assessment.supported, "utility": assessment.utility}
    return judgement | {"fallback": True} if assessment.fallback else judgement


def source_json(citation: Citation) -> JsonObject:
    """One source of a list under the answer; `sources[N-1]` is `[SOURCE N]`."""
    chunk = citation.chunk
    row = place_value(chunk, "row_number")
    return {
        "file_name": name_of(chunk),
        "ref": ref_of(chunk),
        "snippet": citation.snippet,
        "page_number": place_value(chunk, "page_number"),
        "row_number": place_value(chunk, "start_line") if row is None else row,
        "document_id": str(chunk.document_id),
    }


def event_json(event: Event) -> JsonObject:
    """What an event says, for dialects that name events as they are named here."""
    match event:
        case ConversationCreated(conversation_id=conversation_id):
            return {"conversation_id": conversation_id}
        case Step():
            return step_json(event)
        case Decision():
            return decision_json(event)
        case Citations(citations=citations):
            return {"citations": [citation_json(citation) for citation in citations]}
        case VerifiedCitation():
            return verified_json(event)
        case UncitedSentence():
            return uncited_json(event)
        case Sources(citations=citations):
            return {"sources": [source_json(citation) for citation in citations]}
        case Assessment():
            return assessment_json(event)
        case Usage():
            return usage_json(event)
        case Done():
            return {}
        case Tokens(texts=texts):
            return {"text": "".join(texts)}


def rounded(score: float | None) -> float | None:
    """A score with six digits: what follows is noise of 32-bit vectors."""
    return None if score is None else round(score, 6)


def score_of(result: retriever_pb2.SearchResult) -> float | None:
    """A result's cosine similarity; None if its chunk has no vector."""
    return rounded(result.score) if result.HasField("score") else None


def details_json(details: AnswerDetails) -> JsonObject:
    """What is kept with an answer; read back by `GET /v1/conversations`."""
    outcome = details.outcome
    judgements: JsonObject = {}
    if details.decision is not None:
        judgements["decision"] = decision_json(details.decision)
    if details.assessment is not None:
        judgements["assessment"] = assessment_json(details.assessment)
    if details.verified is not None:
        judgements["verified"] = [verified_json(verified) for verified in details.verified]
    if details.uncited is not None:
        judgements["uncited"] = [uncited_json(uncited) for uncited in details.uncited]
    return judgements | {
        "citations": [citation_json(citation) for citation in details.citations],
        "cited": list(outcome.cited),
        "usage": usage_json(details.usage) | ({"estimated": True} if details.estimated else {}),
        "steps": [step_json(step) for step in outcome.steps],
        "provider": outcome.provider,
        "model": outcome.model,
        # One that was cut off has none: its state says what became of it.
        **({"finish_reason": outcome.finish_reason} if details.ended else {}),
        "not_found": outcome.not_found,
    }
