"""Users' feedback on answers in their conversations: stored with the answer, and listed for owners and admins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from prometheus_client import Counter

from citewire_kit.errors import NotFound
from citewire_kit.postgres import Pool, tenant_statement, tenant_transaction
from citewire_kit.queries import load_queries
from citewire_kit.tenant import Tenant

SQL = load_queries("citewire_accounts.tenants", "feedback.sql")
Rating = Literal["up", "down"]
Reason = Literal[
    "correct", "complete", "well_cited", "clear", "incorrect", "unsupported", "incomplete", "off_topic", "outdated",
    "unclear",
]  # fmt: skip
REASONS: Final[Mapping[Rating, Sequence[Reason]]] = {
    "up": ("correct", "complete", "well_cited", "clear"),
    "down": ("incorrect", "unsupported", "incomplete", "off_topic", "outdated", "unclear"),
}
"""Allowed reasons for each rating."""
FEEDBACK = Counter("citewire_feedback_total", "Answers that users rated, or rated again, by rating.", ["rating"])
for _rating in REASONS:
    FEEDBACK.labels(_rating)


@dataclass(frozen=True, slots=True)
class Feedback:
    """A user's feedback on an answer."""

    rating: str
    """`up` or `down`."""
    reasons: Sequence[str]
    comment: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class RatedAnswer:
    """A rated answer with its feedback."""

    conversation_id: UUID
    ordinal: int
    user_id: str
    feedback: Feedback


@dataclass(frozen=True, slots=True)
class FeedbackQuery:
    """Which feedback is wanted: of a rating, from `since` to before `until`; None leaves it open."""

    rating: Rating | None
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class FeedbackStore:
    """Keeps feedback. All methods raise `Unavailable` if the database can't be reached."""

    pool: Pool

    async def give(
        self, tenant: Tenant, answer: tuple[UUID, UUID], rating: Rating, reasons: Sequence[str], comment: str
    ) -> Feedback:
        """Stores the user's feedback on an answer, replacing earlier feedback.

        Args:
            tenant: The user.
            answer: Ids of a conversation of the user's and of the exchange that wrote the answer.
            rating: Whether it is good.
            reasons: Of `REASONS`.
            comment: In the user's own words; "" for none.

        Raises:
            NotFound: The user has no such conversation (`CONVERSATION_NOT_FOUND`), or no such answer is in it
                (`RUN_NOT_FOUND`).
        """
        values = _values(tenant, answer) | {"rating": rating, "reasons": list(reasons), "comment": comment}
        async with tenant_transaction(self.pool, tenant) as connection:
            row = await (await connection.execute(SQL["set_feedback"], values)).fetchone()
            if row is None:
                known = await (await connection.execute(SQL["has_conversation"], values)).fetchone()
                raise conversation_not_found(answer[0]) if known is None else _not_found("answer", answer[1])
        updated_at, before = row
        if before != rating:
            FEEDBACK.labels(rating).inc()
        return Feedback(rating, reasons, comment, updated_at)

    async def take_back(self, tenant: Tenant, answer: tuple[UUID, UUID]) -> None:
        """Deletes the user's feedback on an answer.

        Raises:
            NotFound: The user gave no feedback on such an answer (`RUN_NOT_FOUND`).
        """
        deleted = await tenant_statement(self.pool, tenant, SQL["delete_feedback"], _values(tenant, answer))
        if await deleted.fetchone() is None:
            raise _not_found("feedback on the answer", answer[1])

    async def page(
        self, tenant: Tenant, query: FeedbackQuery, after: tuple[datetime, UUID, int] | None, size: int
    ) -> list[RatedAnswer]:
        """Returns feedback of everybody in the organisation, latest first, after that of an answer; at most `size`."""
        before, before_id, before_ordinal = after or (None, None, None)
        values = {
            "org": tenant.org_id,
            "rating": query.rating,
            "since": query.since,
            "until": query.until,
            "before": before,
            "before_id": before_id,
            "before_ordinal": before_ordinal,
            "limit": size,
        }
        rows = await (await tenant_statement(self.pool, tenant, SQL["list_feedback"], values)).fetchall()
        return [
            RatedAnswer(conversation_id, ordinal, user_id, Feedback(*feedback))
            for conversation_id, ordinal, user_id, *feedback in rows
        ]


def conversation_not_found(conversation_id: object) -> NotFound:
    """Returns the error of a conversation that the user doesn't have, or that can't be one."""
    return NotFound(
        f"there is no conversation {str(conversation_id)[:64]}",
        reason="CONVERSATION_NOT_FOUND",
        metadata={"conversation_id": str(conversation_id)[:64]},
    )


def _values(tenant: Tenant, answer: tuple[UUID, UUID]) -> dict[str, object]:
    return {"org": tenant.org_id, "user": tenant.user_id, "conversation": answer[0], "exchange": answer[1]}


def _not_found(what: str, exchange_id: UUID) -> NotFound:
    return NotFound(
        f"there is no {what} {exchange_id} in the conversation",
        reason="RUN_NOT_FOUND",
        metadata={"run_id": str(exchange_id)},
    )
