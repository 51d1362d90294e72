"""Answers, suggestions, models and tenants' providers."""

from collections.abc import Sequence

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.converters.fields import (
    CHAT,
    MAX_QUESTION_BYTES,
    check_name,
    check_question,
    check_text,
    from_usage,
    to_enum,
    to_fallbacks,
    to_history,
    to_passages,
)
from citewire_generator.model import (
    NOT_FOUND_SENTENCE,
    AnswerPolicy,
    Completed,
    ContextFormat,
    Event,
    FinishReason,
    GenerateRequest,
    Grounding,
    ModelInfo,
    Notice,
    Passage,
    Started,
    Suggestions,
    SuggestRequest,
    TextDelta,
)
from citewire_kit.errors import Violations
from citewire_remote.converters import ref_from_proto
from citewire_verify import MarkerStyle, UncitedSentence, Verdict, Verification, VerifiedCitation

MAX_INSTRUCTIONS_BYTES = 16 * 1024
MAX_SENTENCE = 500
MAX_COMPLETION_TOKENS = 32_768
MAX_VERIFIED_BYTES = 128 * 1024
MAX_VERIFIED_PASSAGES = 1000
MAX_EVIDENCE_BYTES = 4 * 1024 * 1024
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
    pb.MARKER_STYLE_NUMBER: MarkerStyle.NUMBER,
}
_GROUNDINGS: dict[int, Grounding] = {
    pb.GROUNDING_UNSPECIFIED: Grounding.STRICT,
    pb.GROUNDING_STRICT: Grounding.STRICT,
    pb.GROUNDING_SAY_SO: Grounding.SAY_SO,
    pb.GROUNDING_OPEN: Grounding.OPEN,
}
_FINISH = {
    FinishReason.STOP: pb.FINISH_REASON_STOP,
    FinishReason.LENGTH: pb.FINISH_REASON_LENGTH,
    FinishReason.CONTENT_FILTER: pb.FINISH_REASON_CONTENT_FILTER,
    FinishReason.REFUSAL: pb.FINISH_REASON_REFUSAL,
}
_VERDICTS = {
    Verdict.SUPPORTED: pb.VERDICT_SUPPORTED,
    Verdict.PARTIAL: pb.VERDICT_PARTIAL,
    Verdict.UNSUPPORTED: pb.VERDICT_UNSUPPORTED,
}


def to_request(request: pb.GenerateRequest) -> GenerateRequest:
    """Checks and converts a request of Generate.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    check_question(v, request.question)
    passages = to_passages(v, request.passages)
    history = to_history(v, request.history)
    policy = _policy(v, request.policy)
    check_name(v, request.model, "model")
    tokens = request.max_completion_tokens if request.HasField("max_completion_tokens") else None
    if tokens is not None:
        v.require(1 <= tokens <= MAX_COMPLETION_TOKENS, "max_completion_tokens", "must be between 1 and 32,768")
    temperature = request.temperature if request.HasField("temperature") else None
    if temperature is not None:
        v.require(0 <= temperature <= 2, "temperature", "must be between 0 and 2")
    provider = ref_from_proto(v, request.provider, "provider", CHAT) if request.HasField("provider") else None
    fallbacks = to_fallbacks(v, request.fallbacks)
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


def to_verify(request: pb.VerifyRequest) -> tuple[str, tuple[Passage, ...], MarkerStyle]:
    """Checks and converts a request of Verify.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    if v.require(bool(request.answer.strip()), "answer", "must hold more than white space"):
        check_text(v, request.answer, "answer", MAX_VERIFIED_BYTES)
    v.require(len(request.passages) > 0, "passages", "must hold at least one passage")
    size = sum(len(passage.text.encode()) for passage in request.passages)
    v.require(size <= MAX_EVIDENCE_BYTES, "passages", f"must be at most {MAX_EVIDENCE_BYTES:,} bytes of UTF-8 in all")
    passages = to_passages(v, request.passages, MAX_VERIFIED_PASSAGES, identified=False)
    style = to_enum(v, request.marker_style, _STYLES, "marker_style", MarkerStyle.NONE)
    v.raise_if_any()
    return request.answer, passages, style


def to_suggest(request: pb.SuggestQuestionsRequest) -> SuggestRequest:
    """Checks and converts a request of SuggestQuestions.

    Raises:
        InvalidArgument: Names every field that is wrong.
    """
    v = Violations()
    check_text(v, request.question, "question", MAX_QUESTION_BYTES)
    passages = to_passages(v, request.passages)
    v.require(len(passages) > 0, "passages", "must hold at least one passage")
    count = request.count if request.HasField("count") else 3
    v.require(1 <= count <= 10, "count", "must be between 1 and 10")
    check_name(v, request.language, "language")
    check_name(v, request.model, "model")
    provider = ref_from_proto(v, request.provider, "provider", CHAT) if request.HasField("provider") else None
    v.raise_if_any()
    return SuggestRequest(passages, request.question, count, request.language, request.model, provider)


def from_event(event: Event) -> pb.GenerateResponse:
    """Converts an event of an answer."""
    match event:
        case TextDelta():
            return pb.GenerateResponse(delta=pb.TextDelta(texts=event.texts))
        case Started():
            packed = [pb.Citation(number=p.number, passage_index=p.index, chars=p.chars) for p in event.packed]
            return pb.GenerateResponse(started=pb.Started(provider=event.provider, model=event.model, citations=packed))
        case Notice():
            notice = pb.Notice(name=event.name, text=event.text, provider=event.provider, model=event.model)
            return pb.GenerateResponse(notice=notice)
        case VerifiedCitation():
            return pb.GenerateResponse(verified_citation=_from_citation(event))
        case UncitedSentence():
            return pb.GenerateResponse(uncited_sentence=_from_uncited(event))
        case Completed():
            return pb.GenerateResponse(
                completed=pb.Completed(
                    usage=from_usage(event.usage),
                    finish_reason=_FINISH[event.finish_reason],
                    attempts=event.attempts,
                    not_found=event.not_found,
                    suggested_questions=event.suggested_questions,
                    invalid_markers=event.invalid_markers,
                    cited_numbers=event.cited,
                    provider=event.provider,
                    model=event.model,
                    answerable_score=event.answerable_score,
                )
            )


def from_verification(verification: Verification) -> pb.VerifyResponse:
    """Converts what is to be said of an answer."""
    return pb.VerifyResponse(
        verified_citations=[_from_citation(citation) for citation in verification.citations],
        uncited_sentences=[_from_uncited(sentence) for sentence in verification.uncited],
        cited_numbers=verification.cited_numbers,
        invalid_markers=verification.invalid_markers,
    )


def from_suggestions(suggestions: Suggestions) -> pb.SuggestQuestionsResponse:
    """Converts suggested questions."""
    return pb.SuggestQuestionsResponse(questions=suggestions.questions, usage=from_usage(suggestions.usage))


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


def _from_citation(citation: VerifiedCitation) -> pb.VerifiedCitation:
    return pb.VerifiedCitation(
        sentence=pb.AnswerSpan(start=citation.start, end=citation.end),
        number=citation.number,
        quote=citation.quote,
        quote_start=citation.quote_start,
        quote_end=citation.quote_end,
        support=citation.support,
        verdict=_VERDICTS[citation.verdict],
        sentence_verdict=_VERDICTS[citation.sentence_verdict],
        mismatches=citation.mismatches,
    )


def _from_uncited(uncited: UncitedSentence) -> pb.UncitedSentence:
    return pb.UncitedSentence(sentence=pb.AnswerSpan(start=uncited.start, end=uncited.end))


def _policy(v: Violations, policy: pb.AnswerPolicy) -> AnswerPolicy:
    check_name(v, policy.answer_language, "policy.answer_language")
    sentence = policy.not_found_sentence
    one_line = len(sentence) <= MAX_SENTENCE and sentence.isprintable() and (not sentence or bool(sentence.strip()))
    v.require(one_line, "policy.not_found_sentence", f"must be one line of at most {MAX_SENTENCE} characters")
    unread = policy.marker_style == pb.MARKER_STYLE_NUMBER
    v.require(not unread, "policy.marker_style", "NUMBER is for Verify only")
    check_text(v, policy.instructions, "policy.instructions", MAX_INSTRUCTIONS_BYTES)
    threshold = policy.answerable_threshold if policy.HasField("answerable_threshold") else None
    v.require(threshold is None or 0 <= threshold <= 1, "policy.answerable_threshold", "must be between 0 and 1")
    return AnswerPolicy(
        context_format=to_enum(v, policy.context_format, _FORMATS, "policy.context_format", ContextFormat.NUMBERED),
        marker_style=to_enum(v, policy.marker_style, _STYLES, "policy.marker_style", MarkerStyle.NONE),
        grounding=to_enum(v, policy.grounding, _GROUNDINGS, "policy.grounding", Grounding.STRICT),
        answer_language=policy.answer_language.strip(),
        not_found_sentence=sentence.strip() or NOT_FOUND_SENTENCE,
        suggest_on_not_found=policy.suggest_on_not_found,
        ask_back=policy.ask_back,
        max_context_tokens=policy.max_context_tokens,
        max_context_chars=policy.max_context_chars,
        max_history_tokens=policy.max_history_tokens,
        verify_citations=policy.verify_citations,
        flag_uncited=policy.flag_uncited,
        answerable_threshold=threshold,
        instructions=policy.instructions,
    )
