"""A conversation as Markdown, for its export."""

from collections.abc import Mapping, Sequence
from typing import Any

from citewire_accounts.tenants.feedback import Feedback
from citewire_gateway.chat.records import Conversation, StoredMessage

_ENDS: Mapping[str, str] = {
    "cancelled": "_This answer was stopped by the user._",
    "failed": "_This answer was cut off._",
}


def markdown(conversation: Conversation, messages: Sequence[StoredMessage]) -> str:
    """Writes a conversation as Markdown: questions, answers, and each answer's sources below it."""
    head = f"# {conversation.title}\n\nProfile {conversation.profile}, {conversation.created_at:%Y-%m-%d %H:%M} UTC"
    return "\n\n".join([head, *(_markdown_message(message) for message in messages)]) + "\n"


def _markdown_message(message: StoredMessage) -> str:
    if message.role == "user":
        return f"## {_quoted(message.content)}"
    parts = [message.content]
    if message.state in _ENDS:
        parts.append(_ENDS[message.state])
    citations: Sequence[Mapping[str, Any]] = message.details.get("citations", ())
    cited = set(message.details.get("cited", ()))
    shown = [citation for citation in citations if citation["index"] in cited] or list(citations)
    if shown:
        parts.append("Sources:\n\n" + "\n".join(_source(citation) for citation in shown))
    if message.feedback is not None:
        parts.append(_markdown_feedback(message.feedback))
    return "\n\n".join(part for part in parts if part)


def _markdown_feedback(feedback: Feedback) -> str:
    reasons = f" ({', '.join(feedback.reasons)})" if feedback.reasons else ""
    comment = f": {feedback.comment}" if feedback.comment else ""
    return f"Rated {feedback.rating}{reasons}{comment}"


def _quoted(question: str) -> str:
    """The question's first line as a heading, with the others below it."""
    first, _, rest = question.strip().partition("\n")
    return f"{first}\n\n{rest.strip()}" if rest.strip() else first


def _source(citation: Mapping[str, Any]) -> str:
    place = citation.get("page_number")
    at = f", p. {place}" if place else ""
    name = str(citation.get("ref") or citation.get("title"))
    url = citation.get("url")
    return f"{citation['index']}. [{name}]({url}){at}" if url else f"{citation['index']}. {name}{at}"
