"""What is sent to the models of a chain: one context for all of them, made for the smallest of their windows.

Citations are shown before the first token, so whoever answers in the end must have read exactly what was packed. A
prompt that a provider finds too long can be packed anew only as long as nothing was shown.
"""

from dataclasses import dataclass, replace

from citewire_generator.chain import Chain
from citewire_generator.history import Fitted, fit_history, newest
from citewire_generator.model import GenerateRequest, Message, ModelInfo, Notice, Role
from citewire_generator.packing import MARGIN, Budget, Packed, pack
from citewire_generator.prompts import build_messages, system_prompt
from citewire_generator.providers.base import ChatTask
from citewire_generator.registry import Chosen
from citewire_generator.tokens import estimate_messages
from citewire_kit.errors import InvalidArgument
from citewire_kit.telemetry import get_logger

log = get_logger(__name__)

ESTIMATE_FACTOR = 2
"""How far a provider's count of a prompt's tokens may lie above our estimate."""


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """What an answer may take where its request doesn't say."""

    max_completion_tokens: int = 2048


@dataclass(frozen=True, slots=True)
class _FittedRequest:
    """A request with the history that fits, and what the context may take (None: no window limits it)."""

    request: GenerateRequest
    context_tokens: int | None
    history: Fitted


class AnswerPlan:
    """The prompt of one answer.

    Args:
        request: What is asked.
        chain: Who may answer. A fallback whose window doesn't even hold the question is left out.
        limits: Defaults.

    Raises:
        InvalidArgument: The question doesn't fit the first model's window (`CONTEXT_TOO_LONG`).
    """

    def __init__(self, request: GenerateRequest, chain: Chain, limits: ServiceLimits) -> None:
        self._asked = request
        self._default_limit = limits.max_completion_tokens
        self._settled = False
        self.chain, room = self._fitting(chain)
        self._apply(_fit(request, room))
        self.notices: tuple[Notice, ...] = (*_history_notices(self._fitted), *self.packed.notices)
        """What is to be said of the packing."""

    @property
    def may_overflow(self) -> bool:
        """Whether a provider may find the prompt too long: its window is a guess, or nearly full."""
        return any(self._may_overflow(one.model) for one in self.chain)

    def task(self, chosen: Chosen) -> ChatTask:
        """Returns what one of the chain is asked."""
        return ChatTask(
            model=chosen.model.name,
            messages=self._messages,
            question=self._asked.question,
            packed=self.packed.passages,
            policy=self._asked.policy,
            max_completion_tokens=self._limit(chosen.model),
            temperature=self._asked.temperature,
        )

    def settle(self) -> None:
        """The packing was shown: it stays as it is."""
        self._settled = True

    def trim(self) -> bool:
        """Halves context and history, once; False if they must stay, or there is nothing to leave out."""
        if self._settled or not (self.packed.passages or self._fitted.request.history):
            return False
        self._settled = True
        request, tokens = self._fitted.request, self.packed.tokens
        history = newest(request.history, self._fitted.history.tokens // 2)
        self._apply(_FittedRequest(replace(request, history=history), tokens // 2, Fitted(history, 0)))
        cut = [notice for notice in self.packed.notices if notice.name == "passage_cut"]
        self.notices = (_shortened_notice(self._asked, len(self.packed.passages), len(history)), *cut)
        return True

    def _apply(self, fitted: _FittedRequest) -> None:
        self._fitted = fitted
        self.packed = _pack(fitted)
        self._messages = build_messages(fitted.request, self.packed.context)
        self.prompt_tokens = estimate_messages(self._messages)
        """Our estimate."""

    def _fitting(self, chain: Chain) -> tuple[Chain, int | None]:
        """Those of the chain whose window holds the question, and the smallest room (tokens) that they leave."""
        fixed = estimate_messages(
            message for message in build_messages(replace(self._asked, history=()), "\n") if message.content
        )
        kept: list[Chosen] = []
        rooms: list[int] = []
        for chosen in chain:
            window = chosen.model.context_window
            room = int(window * MARGIN) - (self._limit(chosen.model) or 0) - fixed
            if window and room < 0:
                if not kept:
                    raise InvalidArgument(
                        "the question and its instructions don't fit the model's context window with this "
                        "max_completion_tokens",
                        reason="CONTEXT_TOO_LONG",
                        metadata={"context_window": str(window)},
                    )
                log.warning("fallback_too_small", provider=chosen.model.provider, model=chosen.model.name)
                continue
            kept.append(chosen)
            if window:
                rooms.append(room)
        return tuple(kept), min(rooms, default=None)

    def _may_overflow(self, model: ModelInfo) -> bool:
        if not model.remote or not model.context_window:
            return False
        most = self.prompt_tokens * ESTIMATE_FACTOR + (self._limit(model) or 0)
        return model.window_guessed or most > model.context_window

    def _limit(self, model: ModelInfo) -> int | None:
        limit = self._asked.max_completion_tokens
        if limit is None and model.remote:
            limit = self._default_limit
        if limit is not None and model.max_completion_tokens:
            limit = min(limit, model.max_completion_tokens)
        return limit


def _fit(request: GenerateRequest, room: int | None) -> _FittedRequest:
    """Shortens or leaves out the oldest messages where the policy's budget or the smallest window must."""
    budgets: list[int] = []
    if room is not None:
        # Passages are what is asked about: history leaves them half of the room at least.
        budgets.append(room // 2 if request.passages else room)
    if request.policy.max_history_tokens:
        rules = system_prompt(request.policy, has_passages=bool(request.passages))
        budgets.append(max(request.policy.max_history_tokens - estimate_messages((Message(Role.SYSTEM, rules),)), 0))
    tokens = min(budgets, default=None)
    history = fit_history(request.history, tokens, shorten=request.policy.max_history_tokens > 0)
    left = None if room is None else room - history.tokens
    return _FittedRequest(replace(request, history=history.messages), left, history)


def _pack(fitted: _FittedRequest) -> Packed:
    policy = fitted.request.policy
    budgets = [tokens for tokens in (policy.max_context_tokens or None, fitted.context_tokens) if tokens is not None]
    budget = Budget(chars=policy.max_context_chars or None, tokens=min(budgets, default=None))
    return pack(fitted.request.passages, policy.context_format, budget)


def _history_notices(fitted: _FittedRequest) -> tuple[Notice, ...]:
    history = fitted.history
    given = history.dropped + len(history.messages)
    if history.shortened:
        text = f"{history.shortened} of {given} earlier messages were shortened"
        text += f", and {history.dropped} left out." if history.dropped else "."
        return (Notice("history_condensed", text),)
    if history.dropped:
        where = "the history's budget" if fitted.request.policy.max_history_tokens else "the model's window"
        text = f"{history.dropped} of {given} earlier messages don't fit {where} and were left out."
        return (Notice("context_trimmed", text),)
    return ()


def _shortened_notice(asked: GenerateRequest, passages: int, messages: int) -> Notice:
    kept: list[str] = []
    if asked.passages:
        kept.append(f"{passages} of {len(asked.passages)} passages")
    if asked.history:
        kept.append(f"{messages} of {len(asked.history)} earlier messages")
    text = f"The model found the prompt too long. It was shortened, and asked again with {' and '.join(kept)}."
    return Notice("context_trimmed", text)
