"""Shared by the bodies of the compatible APIs.

What they know of the originals' members is honoured; of the others those values that change nothing are taken, as
clients send many. Any other value, and any other member, is refused by name: nothing is passed over.
"""

import json
from typing import Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr, field_validator

from citewire_dialects.schemas import ScopeFields, Score
from citewire_dialects.schemas.questions import ChatRequest
from citewire_http.api.schemas import RequestModel


def only(*values: object, why: str) -> BeforeValidator:
    """Accepts a member only with values that have no effect, including null."""

    def check(value: object) -> object:
        if value is not None and value not in values:
            shown = ", ".join(json.dumps(value) for value in values)
            raise ValueError(f"must be {shown or 'null'} or absent: {why}")
        return value

    return BeforeValidator(check)


def absent() -> Any:  # noqa: ANN401 # as `Field` itself
    """The default of a member that is dropped."""
    return Field(default=None, exclude=True)


NO_SAMPLING = "temperature is the only sampling setting"

MaxTokens = Annotated[StrictInt, Field(ge=1, le=32_768)]
Temperature = Annotated[float, Field(strict=True, ge=0, le=2, allow_inf_nan=False)]
NO_TEMPERATURE = "If the provider doesn't support it, a step says so."
Unread = Annotated[Any, Field(default=None, description="Ignored.", exclude=True)]


class Extras(ScopeFields):
    """Citewire's fields beyond OpenAI's, as `extra_body={"citewire": {…}}`."""

    top_k: StrictInt | None = None
    min_score: Score | None = None
    conversation_id: UUID | None = None
    grace_seconds: Annotated[StrictInt, Field(ge=0, le=60)] = 0
    detach: StrictBool = False


class CompatibleRequest(RequestModel):
    """The fields of every compatible API."""

    model: Annotated[StrictStr, Field(max_length=300)] = Field(
        description="A profile, such as `grounded`, optionally with a chat model: `grounded/openai/gpt-4.1`."
    )
    citewire: Extras = Field(default_factory=Extras)

    @field_validator("citewire", mode="before")
    @classmethod
    def _no_extras(cls, value: object) -> object:
        return {} if value is None else value

    @property
    def profile(self) -> str:
        """The profile that the model names; "" is the default."""
        return self.model.partition("/")[0]

    def native(self, *, keep: bool | None = None) -> ChatRequest:
        """Returns it as a request of our own API, without the conversation and without validating again."""
        model = self.model.partition("/")[2]
        return ChatRequest.model_construct(model=model, keep=keep, **dict(self.citewire))


class OpenAiRequest(CompatibleRequest):
    """The fields of both of OpenAI's APIs."""

    temperature: Temperature | None = Field(default=None, description=NO_TEMPERATURE)
    top_logprobs: Annotated[Any, only(0, why="log probabilities of providers aren't passed on")] = absent()
    moderation: Annotated[Any, only(why="nothing is moderated here; the model's provider may")] = absent()
    service_tier: Annotated[Any, only("auto", "default", why="there is only one tier")] = absent()
    user: Unread
    safety_identifier: Unread
    prompt_cache_key: Annotated[StrictStr, Field(max_length=256)] | None = Field(
        default=None, description="Passed to the model's provider unchanged; absent: derived from the conversation."
    )
    prompt_cache_options: Unread
    prompt_cache_retention: Unread
