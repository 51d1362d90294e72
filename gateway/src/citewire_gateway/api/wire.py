"""How the domain looks in this API's JSON; used by answers, searches and stored messages alike."""

from collections.abc import Mapping
from typing import Any

from citewire_gateway.chat.events import (
    Assessed,
    CheckedCitation,
    Citation,
    Citations,
    ConversationCreated,
    Decided,
    Done,
    Event,
    Sources,
    Step,
    Tokens,
    UncitedSentence,
    Usage,
)
from citewire_gateway.clients.domain import Chunk, Hit
from citewire_gateway.clients.verified import Span

JsonObject = dict[str, Any]


def place_json(chunk: Chunk) -> JsonObject:
    """Where a chunk stands in its document; what doesn't apply is left out."""
    place: JsonObject = {}
    if chunk.url:
        place["url"] = chunk.url
    if chunk.section:
        place["section"] = chunk.section
    for name in ("page_number", "row_number", "start_line", "end_line"):
        value = getattr(chunk, name)
        if value is not None:
            place[name] = value
    return place


def citation_json(citation: Citation) -> JsonObject:
    """One citation; `score` is cosine similarity."""
    chunk = citation.hit.chunk
    return {
        "index": citation.index,
        "chunk_id": chunk.chunk_id,
        "document_id": chunk.document_id,
        "version": chunk.version,
        "title": chunk.title,
        "file_name": chunk.file_name,
        "ref": chunk.ref,
        "snippet": citation.snippet,
        "score": rounded(citation.hit.similarity),
        **place_json(chunk),
    }


def checked_json(checked: CheckedCitation) -> JsonObject:
    """A verified citation; what doesn't apply is left out."""
    place: JsonObject = {
        "page_number": checked.page_number,
        "row_number": checked.row_number,
        "start_line": checked.start_line,
        "document_start": checked.document_start,
        "document_end": checked.document_end,
    }
    return {
        "index": checked.index,
        "sentence": _span_json(checked.sentence),
        "chunk_id": checked.chunk_id,
        "document_id": checked.document_id,
        "version": checked.version,
        **{name: value for name, value in place.items() if value is not None},
        "quote": checked.quote,
        "quote_start": checked.quote_start,
        "quote_end": checked.quote_end,
        "support": round(checked.support, 4),
        "verdict": checked.verdict.value,
        "sentence_verdict": checked.sentence_verdict.value,
        "mismatches": list(checked.mismatches),
    }


def uncited_json(uncited: UncitedSentence) -> JsonObject:
    """A sentence that cites nothing."""
    return {"sentence": _span_json(uncited.sentence)}


def _span_json(span: Span) -> JsonObject:
    return {"start": span.start, "end": span.end}


def hit_json(hit: Hit) -> JsonObject:
    """One result of a search."""
    chunk = hit.chunk
    scores = {
        "similarity": hit.similarity,
        "lexical_score": hit.lexical_score,
        "rerank_score": hit.rerank_score,
    }
    return {
        "chunk_id": chunk.chunk_id,
        "document_id": chunk.document_id,
        "version": chunk.version,
        "chunk_index": chunk.chunk_index,
        "content": chunk.text,
        "score": rounded(hit.score),
        **{name: rounded(score) for name, score in scores.items() if score is not None},
        **({"duplicate_chunk_ids": list(hit.duplicate_ids)} if hit.duplicate_ids else {}),
        "title": chunk.title,
        "file_name": chunk.file_name,
        **place_json(chunk),
    }


def chunk_json(chunk: Chunk) -> JsonObject:
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
        "ref": chunk.ref,
        "type": chunk.type,
        **({"created_at": chunk.created_at} if chunk.created_at else {}),
        **place_json(chunk),
    }


def step_json(step: Step) -> JsonObject:
    """One step; what it doesn't say is left out."""
    said: JsonObject = {"name": step.name, "text": step.text}
    optional: Mapping[str, object] = {
        "path": step.path,
        "counts": None if step.counts is None else dict(step.counts),
        "reason": step.reason,
    }
    return said | {name: value for name, value in optional.items() if value is not None}


def usage_json(usage: Usage) -> JsonObject:
    """The three counts; where the profile says more, also the context path and what the chat cost."""
    counts: JsonObject = {
        "embedding_tokens": usage.embedding_tokens,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }
    more = {"path": usage.path, "cost_usd": usage.cost_usd}
    return counts | {name: value for name, value in more.items() if value is not None}


def decision_json(decided: Decided) -> JsonObject:
    """Whether the question needs retrieval."""
    return {"needs_retrieval": decided.needs_retrieval, "reason": decided.reason}


def assessment_json(assessed: Assessed) -> JsonObject:
    """How good the answer is; `fallback` only where that is not known."""
    judged: JsonObject = {"supported": assessed.supported, "utility": assessed.utility}
    return judged | {"fallback": True} if assessed.fallback else judged


def source_json(citation: Citation) -> JsonObject:
    """One source of a list under the answer; `sources[N-1]` is `[SOURCE N]`."""
    chunk = citation.hit.chunk
    return {
        "file_name": chunk.name,
        "ref": chunk.ref,
        "snippet": citation.snippet,
        "page_number": chunk.page_number,
        "row_number": chunk.row_number if chunk.row_number is not None else chunk.start_line,
        "document_id": str(chunk.document_id),
    }


def event_json(event: Event) -> JsonObject:
    """What an event says, for dialects that name events as they are named here."""
    match event:
        case ConversationCreated(conversation_id=conversation_id):
            return {"conversation_id": conversation_id}
        case Step():
            return step_json(event)
        case Decided():
            return decision_json(event)
        case Citations(citations=citations):
            return {"citations": [citation_json(citation) for citation in citations]}
        case CheckedCitation():
            return checked_json(event)
        case UncitedSentence():
            return uncited_json(event)
        case Sources(citations=citations):
            return {"sources": [source_json(citation) for citation in citations]}
        case Assessed():
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
