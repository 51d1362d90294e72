"""Converts chat completion requests to the generator's messages."""

import re
from typing import Final

from citewire.generator.v1 import generator_pb2

from citewire_dialects.asked import ROLES, Asked
from citewire_dialects.passed_on import FIELD_NAMES, name_of_field, passed_on, tool_calls
from citewire_dialects.schemas.openai import CompletionMessage, CompletionRequest, ImageUrl

_OWN_NAMES: Final = (
    (re.compile(r"sampling\."), ""),
    (re.compile(r"keep$"), "store"),
)
"""Names of the generator's fields here, in addition to `FIELD_NAMES`."""


def read_completion(body: CompletionRequest) -> Asked:
    """Reads a request."""
    last = max(place for place, message in enumerate(body.messages) if message.role == "user")
    talk = [_message(message) for message in body.messages[: last + 1] if message.role in ROLES]
    request = passed_on(body.tools, body.tool_choice, body.parallel_tool_calls, body.response_format)
    request.continuation.extend(_message(message) for message in body.messages[last + 1 :] if message.role in ROLES)
    request.images.extend(talk[-1].images)
    request.cache_key = body.prompt_cache_key or ""
    sampling = _sampling(body)
    if sampling.ByteSize():
        request.sampling.CopyFrom(sampling)
    rules = [message.text for message in body.messages if message.role in ("system", "developer")]
    return Asked(
        talk,
        f"messages.{last}.content",
        "\n\n".join(rules),
        request,
        max_tokens=body.max_completion_tokens or body.max_tokens,
        temperature=body.temperature,
    )


def openai_param(field: str) -> str:
    """Returns the name of one of our fields in OpenAI's requests."""
    return name_of_field(field, (*FIELD_NAMES, *_OWN_NAMES))


def _message(message: CompletionMessage) -> generator_pb2.Message:
    return generator_pb2.Message(
        role=ROLES[message.role],
        content=message.text,
        tool_calls=tool_calls(message.tool_calls),
        tool_call_id=message.tool_call_id or "",
        images=map(_image, message.images),
    )


def _image(image: ImageUrl) -> generator_pb2.Image:
    return generator_pb2.Image(url=image.url, detail=image.detail or "")


def _sampling(body: CompletionRequest) -> generator_pb2.Sampling:
    """The sampling settings. Values without effect count as unset, because many clients always send them."""
    return generator_pb2.Sampling(
        top_p=None if body.top_p == 1 else body.top_p,
        stop=[body.stop] if isinstance(body.stop, str) else body.stop,
        seed=body.seed,
        frequency_penalty=body.frequency_penalty or None,
        presence_penalty=body.presence_penalty or None,
        reasoning_effort=body.reasoning_effort or "",
        verbosity="" if body.verbosity in (None, "medium") else body.verbosity,
    )
