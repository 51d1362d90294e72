"""Plans one context for all models of a chain, sized for the smallest of their windows.

Citations are shown before the first token, so whichever model answers in the end must have read exactly those passages.
A prompt that a provider finds too long can be packed anew only as long as nothing was shown.
"""

from collections.abc import Sequence
from datetime import UTC

from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.cache_prices import KeptQuestions, kept_questions
from citewire_generator.earlier_passages import MOST_TOKENS, KeptHistory, cache_price, keep_passages
from citewire_generator.history import FittedHistory, fit_history, newest
from citewire_generator.model import Message, ModelInfo, Role
from citewire_generator.packing import MARGIN, Budget, Context, pack
from citewire_generator.prompts import build_messages, system_prompt
from citewire_generator.providers.base import ChatTask
from citewire_generator.registry import Chain, ChatModel
from citewire_generator.tokens import estimate_messages, estimate_tokens
from citewire_kit.errors import InvalidArgument
from citewire_kit.telemetry import get_logger
from citewire_kit.time_zones import find_time_zone

log = get_logger(__name__)

ESTIMATE_FACTOR = 2
"""How far a provider's token count may exceed our estimate."""


class AnswerPlan:
    """The prompt of one answer.

    Args:
        request: The request; the converters have checked it and filled in its defaults.
        history: Its earlier messages, oldest first.
        chain: The models that may answer. A fallback whose window is too small for the question is left out.
        default_limit: Completion tokens if the request doesn't set them.

    Raises:
        InvalidArgument: The question doesn't fit the first model's window (`CONTEXT_TOO_LONG`).
    """

    def __init__(
        self, request: pb.GenerateRequest, history: Sequence[Message], chain: Chain, default_limit: int
    ) -> None:
        self._request = request
        self._all_history = history
        self._default_limit = default_limit
        self._zone = find_time_zone(request.time_zone) or UTC
        self._settled = False
        self._cache_price = cache_price(chain[0].model, request.policy.context_format)
        self.chain, room = self._fitting(chain)
        fitted = self._fit_history(room)
        if (
            fitted.shortened or fitted.dropped
        ):  # which may move with each question, so that no prompt begins with the previous one
            self._cache_price = None
        self._apply(fitted.messages, None if room is None else room - fitted.tokens)
        self.notices: list[pb.Notice] = [
            *self._temperature_notices(),
            *self._history_notices(fitted),
            *self.context.notices,
        ]
        """Notices about the packing for the user."""

    @property
    def expects_text(self) -> bool:
        """Whether an empty answer is none: not after a tool's result, or where a text of the caller's ends it."""
        return not (self._request.continuation or self._request.sampling.stop)

    @property
    def may_overflow(self) -> bool:
        """Whether a provider may reject the prompt as too long, because its window is a guess or nearly full."""
        return any(self._may_overflow(chat_model.model) for chat_model in self.chain)

    def task(self, chat_model: ChatModel) -> ChatTask:
        """Returns the task for one model of the chain."""
        request = self._request
        return ChatTask(
            model=chat_model.model.name,
            messages=self._messages,
            question=request.question,
            citations=self.context.citations,
            policy=request.policy,
            max_completion_tokens=self._limit(chat_model.model),
            temperature=request.temperature if request.HasField("temperature") else None,
            listing=request.listing if request.HasField("listing") else None,
            format=request.format if request.HasField("format") else None,
            tools=request.tools if request.HasField("tools") else None,
            sampling=request.sampling,
            cache_key=request.cache_key,
            reused=self._reused,
        )

    def settle(self) -> None:
        """Fixes the context, because the citations were shown."""
        self._settled = True

    def trim(self) -> bool:
        """Halves context and history, once; False if they are fixed, or there is nothing to leave out."""
        if self._settled or not (self.context.citations or self._history):
            return False
        self._settled = True
        self._cache_price = None
        history = newest(self._history, estimate_messages(self._history) // 2)
        self._apply(history, self.context.tokens // 2)
        parts: list[str] = []
        if self._request.passages:
            parts.append(f"{len(self.context.citations)} of {len(self._request.passages)} passages")
        if self._all_history:
            parts.append(f"{len(history)} of {len(self._all_history)} earlier messages")
        text = f"The prompt was too long for the model. The model was asked again with {' and '.join(parts)}."
        cut = [notice for notice in self.context.notices if notice.name == "passage_cut"]
        self.notices = [pb.Notice(name="context_trimmed", text=text), *cut]
        return True

    def _apply(self, history: Sequence[Message], context_tokens: int | None) -> None:
        """Packs the context into the remaining room (None: no window limits it), and builds the prompt."""
        self._history = history
        retained = self._retained(history)
        earlier = self._earlier(history, context_tokens, retained)
        self.context = self._pack(context_tokens, earlier)
        if earlier.placed and len(self.context.citations) < len(self._request.passages):
            alone = self._pack(context_tokens, KeptHistory(tuple(history)))
            if len(alone.citations) > len(self.context.citations):  # earlier passages must not displace a new one
                earlier, retained, self.context = KeptHistory(tuple(history)), KeptQuestions(), alone
        self._reused = retained.current
        is_stable = self._cache_price is not None
        self._messages = build_messages(self._request, earlier.messages, self.context, stable=is_stable)
        self.prompt_tokens = estimate_messages(self._messages)
        """Our estimate."""

    def _retained(self, history: Sequence[Message]) -> KeptQuestions:
        """The questions that keep their passages, because that saves money."""
        request = self._request
        if self._cache_price is None:
            return KeptQuestions()
        rules = estimate_tokens(system_prompt(request, has_passages=True))
        return kept_questions(history, request.question, request.passages, self._cache_price, rules)

    def _earlier(self, history: Sequence[Message], context_tokens: int | None, retained: KeptQuestions) -> KeptHistory:
        """The history with their passages, which may take half of the remaining room."""
        policy = self._request.policy
        if not retained.indexes:
            return KeptHistory(tuple(history))
        budgets = [tokens for tokens in (policy.max_context_tokens or None, context_tokens) if tokens]
        most = min(MOST_TOKENS, min(budgets, default=2 * MOST_TOKENS) // 2)
        return keep_passages(history, policy.context_format, retained.indexes, self._zone, most)

    def _pack(self, context_tokens: int | None, earlier: KeptHistory) -> Context:
        """Packs the passages into the remaining room (None: no window limits it)."""
        policy = self._request.policy
        budgets = [tokens for tokens in (policy.max_context_tokens or None, context_tokens) if tokens is not None]
        left = max(0, min(budgets) - earlier.tokens) if budgets else None
        budget = Budget(chars=policy.max_context_chars or None, tokens=left)
        return pack(self._request.passages, policy.context_format, budget, self._zone, earlier.placed)

    def _fitting(self, chain: Chain) -> tuple[Chain, int | None]:
        """The models whose window is large enough for the question, and the smallest room in tokens that they leave."""
        fixed = estimate_messages(message for message in build_messages(self._request, (), "\n") if message.content)
        fitting: list[ChatModel] = []
        rooms: list[int] = []
        for chat_model in chain:
            window = chat_model.model.context_window
            room = int(window * MARGIN) - (self._limit(chat_model.model) or 0) - fixed
            if not window or room >= 0:
                fitting.append(chat_model)
                rooms += [room] if window else []
            elif fitting:
                log.warning("fallback_too_small", provider=chat_model.model.provider, model=chat_model.model.name)
            else:
                raise InvalidArgument(
                    "the question and its instructions don't fit the model's context window with this "
                    "max_completion_tokens",
                    reason="CONTEXT_TOO_LONG",
                    metadata={"context_window": str(window)},
                )
        return tuple(fitting), min(rooms, default=None)

    def _fit_history(self, room: int | None) -> FittedHistory:
        """Shortens or leaves out the oldest messages if the policy's budget or the smallest window requires it."""
        request = self._request
        budgets: list[int] = []
        if room is not None:
            # Passages matter most: history leaves them at least half of the room.
            budgets.append(room // 2 if request.passages else room)
        if request.policy.max_history_tokens:
            rules = Message(Role.SYSTEM, system_prompt(request, has_passages=bool(request.passages)))
            budgets.append(max(request.policy.max_history_tokens - estimate_messages((rules,)), 0))
        shorten = request.policy.max_history_tokens > 0
        return fit_history(self._all_history, min(budgets, default=None), shorten=shorten)

    def _temperature_notices(self) -> list[pb.Notice]:
        deaf = [chat_model.provider.name for chat_model in self.chain if not chat_model.provider.takes_temperature]
        if not deaf or not self._request.HasField("temperature"):
            return []
        text = f"The temperature has no effect on {' and '.join(dict.fromkeys(deaf))}, which doesn't support it."
        return [pb.Notice(name="temperature_unused", text=text)]

    def _history_notices(self, history: FittedHistory) -> list[pb.Notice]:
        given = len(self._all_history)
        if history.shortened:
            text = f"{history.shortened} of {given} earlier messages were shortened"
            text += f", and {history.dropped} left out." if history.dropped else "."
            return [pb.Notice(name="history_condensed", text=text)]
        if history.dropped:
            where = "the history's budget" if self._request.policy.max_history_tokens else "the model's window"
            text = f"{history.dropped} of {given} earlier messages don't fit {where} and were left out."
            return [pb.Notice(name="context_trimmed", text=text)]
        return []

    def _may_overflow(self, model: ModelInfo) -> bool:
        if not model.remote or not model.context_window:
            return False
        most = self.prompt_tokens * ESTIMATE_FACTOR + (self._limit(model) or 0)
        return model.window_guessed or most > model.context_window

    def _limit(self, model: ModelInfo) -> int | None:
        limit = self._request.max_completion_tokens if self._request.HasField("max_completion_tokens") else None
        if limit is None and model.remote:
            limit = self._default_limit
        if limit is not None and model.max_completion_tokens:
            limit = min(limit, model.max_completion_tokens)
        return limit
