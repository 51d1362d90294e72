"""Bodies of OpenAI's responses: while they are written, and as they are stored."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

from citewire_dialects.events import Citation, Usage
from citewire_dialects.json_values import attributes_of
from citewire_dialects.schemas import response_answers as schemas
from citewire_dialects.schemas.chat import Verdict, VerifiedCitation

_STORED_QUOTED = frozenset({Verdict.SUPPORTED, Verdict.PARTIAL})
_RESPONSE = "resp_"
Status = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]


def response_id(run_id: UUID) -> str:
    """Returns the id of a run's response."""
    return _RESPONSE + run_id.hex


def run_of(name: str) -> UUID | None:
    """Returns the run for a response id; None if the id is invalid."""
    try:
        return UUID(hex=name.removeprefix(_RESPONSE)) if name.startswith(_RESPONSE) else None
    except ValueError:
        return None


def stored_response(
    run_id: UUID, question: str, content: str, state: str, details: Mapping[str, Any], conversation: str
) -> schemas.ResponseBody:
    """Returns a stored response: an answer, its state and its details (see `AnswerDetails`)."""
    settings: dict[str, Any] = details["request"]
    names = {entry["index"]: entry["file_name"] or entry["title"] for entry in details.get("citations", ())}
    verified = [VerifiedCitation.model_validate(entry) for entry in details.get("verified", ())]
    annotations = [
        file_citation(entry, names[entry.index])
        for entry in verified
        if entry.verdict in _STORED_QUOTED and entry.index in names
    ]
    reason = incomplete_reason(details.get("finish_reason", "stop"))
    status: Status = "failed" if state == "failed" else "cancelled" if state == "cancelled" else "completed"
    if status == "completed" and reason is not None:
        status = "incomplete"
    message = schemas.OutputMessage(
        id=f"msg_{run_id.hex}",
        type="message",
        role="assistant",
        status="completed" if status == "completed" else "incomplete",
        content=[output_text(content, annotations)],
    )
    output: list[schemas.FileSearchCall | schemas.OutputMessage] = [message]
    if settings["tools"]:
        output.insert(0, search_call(run_id, question, None))
    usage = details.get("usage", {})
    return response_body(
        settings,
        run_id,
        status,
        output,
        error=schemas.ResponseFailure(code="server_error", message="the answer was cut off")
        if state == "failed"
        else None,
        reason=reason,
        usage=_usage(*(usage.get(name, 0) for name in ("prompt_tokens", "completion_tokens", "cached_prompt_tokens"))),
        conversation=conversation,
    )


def stored_inputs(run_id: UUID, question: str) -> schemas.StoredInputs:
    """Returns the input of a stored response."""
    name = f"msg_{run_id.hex}_in"
    item = schemas.StoredInput(
        id=name, type="message", role="user", status="completed", content=[{"type": "input_text", "text": question}]
    )
    return schemas.StoredInputs(object="list", data=[item], first_id=name, last_id=name, has_more=False)


def response_body(
    settings: Mapping[str, Any],
    run_id: UUID,
    status: Status,
    output: list[schemas.FileSearchCall | schemas.OutputMessage],
    *,
    error: schemas.ResponseFailure | None,
    reason: Literal["max_output_tokens", "content_filter"] | None,
    usage: schemas.ResponseUsage | None,
    conversation: str | None,
    completed_at: int | None = None,
) -> schemas.ResponseBody:
    """Returns a response; `settings` are the fields of `ResponseSettings`."""
    return schemas.ResponseBody(
        **settings,
        id=response_id(run_id),
        object="response",
        created_at=(run_id.int >> 80) // 1000,  # a version 7 begins with its milliseconds
        completed_at=completed_at,
        status=status,
        background=False,
        error=error,
        incomplete_details=None if reason is None or status != "incomplete" else schemas.Incomplete(reason=reason),
        output=output,
        conversation=None if conversation is None else schemas.ResponseConversation(id=conversation),
        reasoning=None,
        service_tier="default",
        top_logprobs=0,
        top_p=1,
        usage=usage,
        user=None,
    )


def output_text(text: str, annotations: Sequence[schemas.FileCitation]) -> schemas.OutputText:
    """Returns an answer's text with its citations."""
    return schemas.OutputText(type="output_text", text=text, annotations=list(annotations), logprobs=[])


def search_call(run_id: UUID, question: str, results: list[schemas.FileSearchResult] | None) -> schemas.FileSearchCall:
    """Returns the search that a response began with."""
    return schemas.FileSearchCall(
        id=f"fs_{run_id.hex}", type="file_search_call", status="completed", queries=[question], results=results
    )


def incomplete_reason(finish_reason: str) -> Literal["max_output_tokens", "content_filter"] | None:
    """Returns why an answer is incomplete; None if it is complete."""
    if finish_reason == "stop":
        return None
    return "max_output_tokens" if finish_reason == "length" else "content_filter"


def usage_of(usage: Usage) -> schemas.ResponseUsage:
    """Returns the chat model's token counts."""
    return _usage(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens or 0)


def _usage(prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> schemas.ResponseUsage:
    return schemas.ResponseUsage(
        input_tokens=prompt_tokens,
        input_tokens_details=schemas.InputTokensDetails(cached_tokens=cached_tokens),
        output_tokens=completion_tokens,
        output_tokens_details=schemas.OutputTokensDetails(reasoning_tokens=0),
        total_tokens=prompt_tokens + completion_tokens,
    )


def file_citation(verified: VerifiedCitation, file_name: str) -> schemas.FileCitation:
    """Returns a sentence's citation, positioned at its end."""
    return schemas.FileCitation(
        type="file_citation",
        file_id=str(verified.document_id),
        filename=file_name,
        index=verified.sentence.end,
        citewire=verified,
    )


def search_result(citation: Citation) -> schemas.FileSearchResult:
    """Returns a passage as a search result."""
    chunk = citation.chunk
    score = citation.result.score if citation.result.HasField("score") else None
    return schemas.FileSearchResult(
        file_id=str(chunk.document_id),
        filename=citation.document_name,
        score=score,
        text=chunk.text,
        attributes=attributes_of(chunk.metadata),
    )
