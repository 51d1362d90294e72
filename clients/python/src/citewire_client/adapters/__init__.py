"""Code shared by the adapters to frameworks: converts their questions, and answers and passages for them."""

from citewire_client.adapters.answers import (
    AnswerReader,
    StopSequences,
    answer_details,
    cited_sentence,
    usage_counts,
)
from citewire_client.adapters.connection import GatewayConnection
from citewire_client.adapters.passages import (
    batches,
    document_fields,
    embedding_choice,
    members,
    passage_metadata,
    require_readable,
    vectors,
)
from citewire_client.adapters.questions import ChatSettings, Question, answer_format, called_tool, chosen_tool

__all__ = [
    "AnswerReader",
    "ChatSettings",
    "GatewayConnection",
    "Question",
    "StopSequences",
    "answer_details",
    "answer_format",
    "batches",
    "called_tool",
    "chosen_tool",
    "cited_sentence",
    "document_fields",
    "embedding_choice",
    "members",
    "passage_metadata",
    "require_readable",
    "usage_counts",
    "vectors",
]
