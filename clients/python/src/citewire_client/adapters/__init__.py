"""What adapters to frameworks share: questions as they ask them, answers and passages as they take them."""

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
from citewire_client.adapters.questions import TOOL_FIELDS, ChatSettings, Question, called_tool

__all__ = [
    "TOOL_FIELDS",
    "AnswerReader",
    "ChatSettings",
    "GatewayConnection",
    "Question",
    "StopSequences",
    "answer_details",
    "batches",
    "called_tool",
    "cited_sentence",
    "document_fields",
    "embedding_choice",
    "members",
    "passage_metadata",
    "require_readable",
    "usage_counts",
    "vectors",
]
