"""Events of the audit trail, and the vocabulary of their actions.

An event names who did what to which objects, from where, with which key, and how it ended. It never holds content:
no question, no text, no title; ids and names of objects only.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

NOBODY: Final = "?"
"""Organisation of an event whose caller isn't known. No organisation can have this id."""

OPERATORS: Final = "?operators"
"""The trail of operators' actions, besides the affected organisation's. No organisation can have this id."""

OPERATOR: Final = "operator"
"""The issuer of an operator's identity."""

MAX_OBJECTS: Final = 50
"""Objects of one event; further ones are left out, and `…` is last."""

_MAX_OBJECT_CHARS = 300
_MAX_AGENT_CHARS = 200
_MAX_REASON_CHARS = 64
_MORE = "…"


class Action(StrEnum):
    """All recorded actions. Names never change, because exports and alerts depend on them."""

    AUDIT_CUT = "audit.cut"
    AUDIT_DROPPED = "audit.dropped"
    AUDIT_EXPORT = "audit.export"
    BUDGET_DELETE = "budget.delete"
    BUDGET_LIST = "budget.list"
    BUDGET_SET = "budget.set"
    CHAT = "chat"
    CHAT_CANCEL = "chat.cancel"
    CHAT_READ = "chat.read"
    CHUNK_READ = "chunk.read"
    COLLECTION_CREATE = "collection.create"
    COLLECTION_DELETE = "collection.delete"
    COLLECTION_GRANT = "collection.grant"
    COLLECTION_GRANTS = "collection.grants"
    COLLECTION_LIST = "collection.list"
    COLLECTION_UPDATE = "collection.update"
    CONVERSATION_DELETE = "conversation.delete"
    CONVERSATION_EXPIRE = "conversation.expire"
    CONVERSATION_EXPORT = "conversation.export"
    CONVERSATION_LIST = "conversation.list"
    CONVERSATION_READ = "conversation.read"
    CONVERSATION_SHARE = "conversation.share"
    CONVERSATION_UPDATE = "conversation.update"
    DOCUMENT_BATCH = "document.batch"
    DOCUMENT_CREATE = "document.create"
    DOCUMENT_DELETE = "document.delete"
    DOCUMENT_EXPIRE = "document.expire"
    DOCUMENT_LIST = "document.list"
    DOCUMENT_READ = "document.read"
    DOCUMENT_REPLACE = "document.replace"
    DOCUMENT_RETRY = "document.retry"
    DOCUMENT_UPDATE = "document.update"
    ERASURE_CREATE = "erasure.create"
    ERASURE_READ = "erasure.read"
    FEEDBACK_DELETE = "feedback.delete"
    FEEDBACK_LIST = "feedback.list"
    FEEDBACK_SET = "feedback.set"
    GROUP_ADD = "group.add"
    GROUP_CREATE = "group.create"
    GROUP_DELETE = "group.delete"
    GROUP_LIST = "group.list"
    GROUP_READ = "group.read"
    GROUP_REMOVE = "group.remove"
    KEY_CREATE = "key.create"
    KEY_LIST = "key.list"
    KEY_READ = "key.read"
    KEY_REVOKE = "key.revoke"
    KEY_ROTATE = "key.rotate"
    LIMIT_DELETE = "limit.delete"
    LIMIT_LIST = "limit.list"
    LIMIT_SET = "limit.set"
    MODEL_CALL = "model.call"
    OPERATOR_KEY_CREATE = "operator_key.create"
    OPERATOR_KEY_REVOKE = "operator_key.revoke"
    ORGANISATION_AUDIT_DAYS = "organisation.audit_days"
    ORGANISATION_CREATE = "organisation.create"
    ORGANISATION_LIST = "organisation.list"
    ORGANISATION_PLAN = "organisation.plan"
    ORGANISATION_READ = "organisation.read"
    ORGANISATION_RESUME = "organisation.resume"
    ORGANISATION_SUSPEND = "organisation.suspend"
    PROFILE_DELETE = "profile.delete"
    PROFILE_READ = "profile.read"
    PROFILE_SET = "profile.set"
    PROVIDER_DELETE = "provider.delete"
    PROVIDER_READ = "provider.read"
    PROVIDER_RULES = "provider.rules"
    PROVIDER_SET = "provider.set"
    RETENTION_READ = "retention.read"
    RETENTION_SET = "retention.set"
    SEARCH = "search"
    SESSION_BEGIN = "session.begin"
    SESSION_END = "session.end"
    SESSION_REFRESH = "session.refresh"
    SPACE_CALIBRATE = "space.calibrate"
    SPACE_LIST = "space.list"
    SPACE_PREPARE = "space.prepare"
    SPACE_SWITCH = "space.switch"
    USAGE_READ = "usage.read"
    USER_CREATE = "user.create"
    USER_DISABLE = "user.disable"
    USER_ENABLE = "user.enable"
    USER_EXPORT = "user.export"
    USER_LIST = "user.list"
    USER_READ = "user.read"
    USER_ROLE = "user.role"
    VERIFY = "verify"


class Outcome(StrEnum):
    """The outcome of an action."""

    OK = "ok"
    REFUSED = "refused"
    """Rejected: no valid key, no right, a limit, or a budget."""
    FAILED = "failed"
    """Attempted without success: invalid input, nothing found, a cancellation, or an internal error."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """An action that was performed or attempted."""

    at: datetime
    """When it ended; UTC, to the microsecond."""
    org_id: str
    """`NOBODY` if the caller isn't known."""
    user_id: str
    key_id: str
    """Id of the API key; "" without one."""
    issuer: str
    """The issuer that identified the caller; "" if it was this process."""
    action: str
    objects: tuple[str, ...]
    """Each `kind:id`, such as `document:17`."""
    outcome: str
    reason: str
    """The error's reason; "" on success."""
    address: str
    """The client's address."""
    agent: str
    """The client's user agent."""
    request_id: str

    def lines(self) -> list[object]:
        """Returns the values to be hashed, in the order of the fields, with times as text."""
        return [
            self.at.astimezone(UTC).isoformat(timespec="microseconds"),
            self.org_id,
            self.user_id,
            self.key_id,
            self.issuer,
            self.action,
            list(self.objects),
            self.outcome,
            self.reason,
            self.address,
            self.agent,
            self.request_id,
        ]


def own_event(
    org_id: str,
    action: Action,
    objects: tuple[str, ...],
    *,
    outcome: Outcome = Outcome.OK,
    reason: str = "",
    by: str = "",
) -> AuditEvent:
    """Returns an event without a request: an action of the process itself, or of an operator using it.

    Args:
        org_id: The organisation that it concerns.
        action: What was done.
        objects: What it was done to.
        outcome: How it ended.
        reason: Why it failed.
        by: Who vouches for it.
    """
    return AuditEvent(datetime.now(UTC), org_id, "", "", by, action, objects, outcome, reason, "", "", "")


def bounded_objects(objects: tuple[str, ...]) -> tuple[str, ...]:
    """Returns objects as they are recorded: without duplicates, in their order, limited in number and length."""
    names = tuple(dict.fromkeys(printable(name, _MAX_OBJECT_CHARS) for name in objects))
    return names if len(names) <= MAX_OBJECTS else (*names[:MAX_OBJECTS], _MORE)


def bounded_agent(text: str) -> str:
    """Returns a client's user agent in its recorded form."""
    return printable(text, _MAX_AGENT_CHARS)


def bounded_reason(text: str) -> str:
    """Returns a reason in its recorded form."""
    return printable(text, _MAX_REASON_CHARS)


def printable(text: str, limit: int) -> str:
    """Truncates a text, and replaces characters that a log or a database can't show."""
    cut = text[:limit]
    return cut if cut.isprintable() else "".join(char if char.isprintable() else "?" for char in cut)
