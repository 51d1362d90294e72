"""Between the proto and the domain: every field of a request is checked here, and nowhere else."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.model import (
    NOT_FOUND_SENTENCE,
    AnswerPolicy,
    Completed,
    ContextFormat,
    Event,
    FinishReason,
    GenerateRequest,
    Grounding,
    MarkerStyle,
    Message,
    ModelInfo,
    Notice,
    Passage,
    Role,
    Started,
    Suggestions,
    SuggestRequest,
    TextDelta,
    Usage,
)
from citewire_kit.errors import Violations
from citewire_remote.converters import from_report, from_sealed, to_ref, to_sealed, to_spec
from citewire_remote.kinds import ProviderType
from citewire_remote.tenants import ProviderSpec, SealedProvider, TrialReport

MAX_QUESTION_BYTES = 32 * 1024
MAX_PASSAGES = 10_000
MAX_HISTORY = 1000
MAX_INSTRUCTIONS_BYTES = 16 * 1024
MAX_SENTENCE = 500
MAX_NAME = 200
MAX_COMPLETION_TOKENS = 32_768
MAX_FALLBACKS = 4
_ROUNDING = 1e-6
"""How far a similarity may lie outside 0–1: float32 vectors aren't exactly of length 1."""

_CHAT = (ProviderType.CHAT,)

_T = TypeVar("_T")

_FORMATS: dict[int, ContextFormat] = {
    pb.CONTEXT_FORMAT_UNSPECIFIED: ContextFormat.NUMBERED,
    pb.CONTEXT_FORMAT_NUMBERED: ContextFormat.NUMBERED,
    pb.CONTEXT_FORMAT_SOURCE_LABELS: ContextFormat.SOURCE_LABELS,
    pb.CONTEXT_FORMAT_TYPED: ContextFormat.TYPED,
    pb.CONTEXT_FORMAT_PLAIN: ContextFormat.PLAIN,
}
_STYLES: dict[int, MarkerStyle] = {
    pb.MARKER_STYLE_UNSPECIFIED: MarkerStyle.NONE,
    pb.MARKER_STYLE_NONE: MarkerStyle.NONE,
    pb.MARKER_STYLE_REMOVE: MarkerStyle.REMOVE,
    pb.MARKER_STYLE_REF: MarkerStyle.REF,
    pb.MARKER_STYLE_SOURCE: MarkerStyle.SOURCE,
}
_GROUNDINGS: dict[int, Grounding] = {
    pb.GROUNDING_UNSPECIFIED: Grounding.STRICT,
    pb.GROUNDING_STRICT: Grounding.STRICT,
    pb.GROUNDING_SAY_SO: Grounding.SAY_SO,
    pb.GROUNDING_OPEN: Grounding.OPEN,
}
_ROLES: dict[int, Role] = {pb.ROLE_USER: Role.USER, pb.ROLE_ASSISTANT: Role.ASSISTANT}
_FINISH = {
    FinishReason.STOP: pb.FINISH_REASON_STOP,
    FinishReason.LENGTH: pb.FINISH_REASON_LENGTH,
    FinishReason.CONTENT_FILTER: pb.FINISH_REASON_CONTENT_FILTER,
    FinishReason.REFUSAL: pb.FINISH_REASON_REFUSAL,
}


def to_request(request: pb.GenerateRequest) -> GenerateRequest:
    """Checks and converts a request of Generate.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    _question(v, request.question)
    passages = _passages(v, request.passages)
    history = _history(v, request.history)
    policy = _policy(v, request.policy)
    _name(v, request.model, "model")
    tokens = request.max_completion_tokens if request.HasField("max_completion_tokens") else None
    if tokens is not None:
        v.require(1 <= tokens <= MAX_COMPLETION_TOKENS, "max_completion_tokens", "must be between 1 and 32,768")
    temperature = request.temperature if request.HasField("temperature") else None
    if temperature is not None:
        v.require(0 <= temperature <= 2, "temperature", "must be between 0 and 2")
    provider = to_sealed(v, request.provider, "provider", _CHAT) if request.HasField("provider") else None
    fallbacks = _fallbacks(v, request.fallbacks)
    v.raise_if_any()
    return GenerateRequest(
        question=request.question,
        passages=passages,
        history=history,
        policy=policy,
        model=request.model,
        max_completion_tokens=tokens,
        temperature=temperature,
        provider=provider,
        fallbacks=fallbacks,
    )


def to_suggest(request: pb.SuggestQuestionsRequest) -> SuggestRequest:
    """Checks and converts a request of SuggestQuestions.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    _text(v, request.question, "question", MAX_QUESTION_BYTES)
    passages = _passages(v, request.passages)
    v.require(len(passages) > 0, "passages", "must hold at least one passage")
    count = request.count if request.HasField("count") else 3
    v.require(1 <= count <= 10, "count", "must be between 1 and 10")
    _name(v, request.language, "language")
    _name(v, request.model, "model")
    provider = to_sealed(v, request.provider, "provider", _CHAT) if request.HasField("provider") else None
    v.raise_if_any()
    return SuggestRequest(passages, request.question, count, request.language, request.model, provider)


def to_provider_spec(request: pb.SealProviderRequest) -> ProviderSpec:
    """Checks and converts a request of SealProvider.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    return to_spec(request.spec, _CHAT)


def to_provider(request: pb.RewrapProviderRequest) -> SealedProvider:
    """Checks and converts a request of RewrapProvider.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    return to_ref(request.ref, _CHAT)


def from_seal(sealed: SealedProvider, report: TrialReport) -> pb.SealProviderResponse:
    """Converts a provider that was sealed."""
    return pb.SealProviderResponse(ref=from_sealed(sealed), test=from_report(report))


def from_rewrap(sealed: SealedProvider, changed: bool) -> pb.RewrapProviderResponse:
    """Converts a provider that was sealed again."""
    return pb.RewrapProviderResponse(ref=from_sealed(sealed), changed=changed)


def from_event(event: Event) -> pb.GenerateResponse:
    """Converts an event of an answer."""
    match event:
        case TextDelta():
            return pb.GenerateResponse(delta=pb.TextDelta(texts=event.texts))
        case Started():
            packed = [pb.PackedPassage(number=p.number, passage_index=p.index, chars=p.chars) for p in event.packed]
            return pb.GenerateResponse(started=pb.Started(provider=event.provider, model=event.model, packed=packed))
        case Notice():
            notice = pb.Notice(name=event.name, text=event.text, provider=event.provider, model=event.model)
            return pb.GenerateResponse(notice=notice)
        case Completed():
            return pb.GenerateResponse(
                completed=pb.Completed(
                    usage=_usage(event.usage),
                    finish_reason=_FINISH[event.finish_reason],
                    attempts=event.attempts,
                    not_found=event.not_found,
                    suggested_questions=event.suggested_questions,
                    invalid_markers=event.invalid_markers,
                    cited=event.cited,
                    provider=event.provider,
                    model=event.model,
                )
            )


def from_suggestions(suggestions: Suggestions) -> pb.SuggestQuestionsResponse:
    """Converts suggested questions."""
    return pb.SuggestQuestionsResponse(questions=suggestions.questions, usage=_usage(suggestions.usage))


def from_models(models: Sequence[ModelInfo]) -> pb.ListModelsResponse:
    """Converts the models; the first is the default."""
    return pb.ListModelsResponse(
        models=[
            pb.Model(
                provider=model.provider,
                name=model.name,
                is_default=index == 0,
                context_window=model.context_window,
                max_completion_tokens=model.max_completion_tokens,
                remote=model.remote,
            )
            for index, model in enumerate(models)
        ]
    )


def _usage(usage: Usage) -> pb.TokenUsage:
    return pb.TokenUsage(
        prompt_tokens=usage.prompt_tokens,
        cached_prompt_tokens=usage.cached_prompt_tokens,
        completion_tokens=usage.completion_tokens,
        estimated=usage.estimated,
    )


def _question(v: Violations, question: str) -> None:
    if v.require(bool(question.strip()), "question", "must hold more than white space"):
        _text(v, question, "question", MAX_QUESTION_BYTES)


def _text(v: Violations, text: str, field: str, max_bytes: int | None = None) -> None:
    v.require("\0" not in text, field, "must not hold NUL characters")
    if max_bytes is not None and len(text) * 4 > max_bytes:
        v.require(len(text.encode()) <= max_bytes, field, f"must be at most {max_bytes:,} bytes of UTF-8")


def _name(v: Violations, text: str, field: str) -> None:
    fits = len(text) <= MAX_NAME and text.isprintable()
    v.require(fits, field, f"must be one line of at most {MAX_NAME} characters")


def _passages(v: Violations, passages: Sequence[pb.Passage]) -> tuple[Passage, ...]:
    if not v.require(len(passages) <= MAX_PASSAGES, "passages", f"must be at most {MAX_PASSAGES}"):
        return ()
    return tuple(_passage(v, passage, f"passages[{index}]") for index, passage in enumerate(passages))


def _passage(v: Violations, passage: pb.Passage, at: str) -> Passage:
    v.require(passage.chunk_id > 0, f"{at}.chunk_id", "must be positive")
    v.require(passage.document_id > 0, f"{at}.document_id", "must be positive")
    v.require(bool(passage.text.strip()), f"{at}.text", "must hold more than white space")
    for name in ("text", "title", "file_name", "section", "type", "url", "place"):
        _text(v, getattr(passage, name), f"{at}.{name}")
    similarity = passage.similarity if passage.HasField("similarity") else None
    if similarity is not None:
        known = math.isfinite(similarity) and -_ROUNDING <= similarity <= 1 + _ROUNDING
        v.require(known, f"{at}.similarity", "must be between 0 and 1")
        similarity = min(max(similarity, 0.0), 1.0)
    return Passage(
        chunk_id=passage.chunk_id,
        document_id=passage.document_id,
        text=passage.text,
        title=passage.title,
        file_name=passage.file_name,
        section=passage.section,
        type=passage.type,
        url=passage.url,
        place=passage.place,
        similarity=similarity,
        token_count=passage.token_count,
    )


def _history(v: Violations, history: Sequence[pb.Message]) -> tuple[Message, ...]:
    if not v.require(len(history) <= MAX_HISTORY, "history", f"must be at most {MAX_HISTORY} messages"):
        return ()
    messages: list[Message] = []
    for index, message in enumerate(history):
        at = f"history[{index}]"
        role = _enum(v, message.role, _ROLES, f"{at}.role", Role.USER)
        v.require(bool(message.content), f"{at}.content", "must not be empty")
        _text(v, message.content, f"{at}.content")
        messages.append(Message(role, message.content))
    return tuple(messages)


def _policy(v: Violations, policy: pb.AnswerPolicy) -> AnswerPolicy:
    _name(v, policy.answer_language, "policy.answer_language")
    sentence = policy.not_found_sentence
    one_line = len(sentence) <= MAX_SENTENCE and sentence.isprintable() and (not sentence or bool(sentence.strip()))
    v.require(one_line, "policy.not_found_sentence", f"must be one line of at most {MAX_SENTENCE} characters")
    _text(v, policy.instructions, "policy.instructions", MAX_INSTRUCTIONS_BYTES)
    return AnswerPolicy(
        context_format=_enum(v, policy.context_format, _FORMATS, "policy.context_format", ContextFormat.NUMBERED),
        marker_style=_enum(v, policy.marker_style, _STYLES, "policy.marker_style", MarkerStyle.NONE),
        grounding=_enum(v, policy.grounding, _GROUNDINGS, "policy.grounding", Grounding.STRICT),
        answer_language=policy.answer_language.strip(),
        not_found_sentence=sentence.strip() or NOT_FOUND_SENTENCE,
        suggest_on_not_found=policy.suggest_on_not_found,
        ask_back=policy.ask_back,
        max_context_tokens=policy.max_context_tokens,
        max_context_chars=policy.max_context_chars,
        instructions=policy.instructions,
    )


def _enum(v: Violations, value: int, known: Mapping[int, _T], field: str, default: _T) -> _T:
    """Looks an enum's value up. Unknown ones arrive as numbers: proto3's enums are open."""
    v.require(value in known, field, "isn't a value of its enum" if value else "is required")
    return known.get(value, default)


def _fallbacks(v: Violations, fallbacks: Sequence[pb.Fallback]) -> tuple[str | SealedProvider, ...]:
    v.require(len(fallbacks) <= MAX_FALLBACKS, "fallbacks", f"must be at most {MAX_FALLBACKS}")
    found: list[str | SealedProvider] = []
    for index, fallback in enumerate(fallbacks[:MAX_FALLBACKS]):
        at = f"fallbacks[{index}]"
        if fallback.HasField("provider"):
            sealed = to_sealed(v, fallback.provider, f"{at}.provider", _CHAT)
            found += [] if sealed is None else [sealed]
        elif v.require(bool(fallback.model), at, "must name a model or a provider"):
            _name(v, fallback.model, f"{at}.model")
            found.append(fallback.model)
    return tuple(found)
