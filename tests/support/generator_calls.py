"""The generator's requests, as completed by its converters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

from citewire.common.v1.common_pb2 import ProviderRef
from citewire.generator.v1 import generator_pb2 as pb
from google.protobuf.message import Message as ProtoMessage

from citewire_generator.model import NOT_FOUND_SENTENCE, Message
from citewire_generator.registry import ModelRoute

GenerateCall: TypeAlias = tuple[pb.GenerateRequest, Sequence[Message], ModelRoute]
"""The arguments of `Generator.generate`."""
M = TypeVar("M", bound=ProtoMessage)


def make_passage(chunk_id: int, document_id: int, text: str, **fields: Any) -> pb.Passage:  # noqa: ANN401 # any type is intended
    return pb.Passage(chunk_id=chunk_id, document_id=document_id, text=text, **fields)


def make_policy(
    context_format: pb.ContextFormat = pb.CONTEXT_FORMAT_NUMBERED,
    marker_style: pb.MarkerStyle = pb.MARKER_STYLE_NONE,
    grounding: pb.Grounding = pb.GROUNDING_STRICT,
    not_found_sentence: str = NOT_FOUND_SENTENCE,
    **fields: Any,  # noqa: ANN401 # any type is intended
) -> pb.AnswerPolicy:
    return pb.AnswerPolicy(
        context_format=context_format,
        marker_style=marker_style,
        grounding=grounding,
        not_found_sentence=not_found_sentence,
        **fields,
    )


def make_request(
    question: str,
    passages: Sequence[pb.Passage] = (),
    history: Sequence[Message] = (),
    policy: pb.AnswerPolicy | None = None,
    model: str = "",
    provider: ProviderRef | None = None,
    fallbacks: Sequence[str | ProviderRef] = (),
    **fields: Any,  # noqa: ANN401 # any type is intended
) -> GenerateCall:
    request = pb.GenerateRequest(question=question, passages=passages, policy=policy or make_policy(), **fields)
    return request, history, ModelRoute(model, provider, fallbacks)


def changed(message: M, **fields: Any) -> M:  # noqa: ANN401 # any type is intended
    """A copy with other values in some fields."""
    copy = type(message)()
    copy.CopyFrom(message)
    copy.MergeFrom(type(message)(**fields))
    return copy
