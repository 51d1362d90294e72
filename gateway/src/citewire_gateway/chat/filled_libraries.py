"""Which libraries have documents: an empty one is answered without embedding the question."""

import time
from collections.abc import Callable
from typing import Final

from cachetools import TTLCache
from citewire.retriever.v1 import retriever_pb2

from citewire_gateway.clients.retriever import Retriever
from citewire_kit.tenant import Tenant

_SECONDS: Final = 30.0
"""A library that was emptied elsewhere counts as filled for so long: a question is embedded in vain then."""
_MAX_ENTRIES: Final = 10_000


class FilledLibraries:
    """Remembers for a while that a library holds documents, so that only a first question has to wait for the answer.

    That one is empty isn't remembered: what has just been added counts at once.
    """

    def __init__(self, retriever: Retriever, clock: Callable[[], float] = time.monotonic) -> None:
        self._retriever = retriever
        self._filled = TTLCache[tuple[str, str, bytes], None](_MAX_ENTRIES, _SECONDS, timer=clock)

    async def plan_if_empty(
        self, tenant: Tenant, scope: retriever_pb2.Scope, strategy: retriever_pb2.Strategy, max_tokens: int | None
    ) -> retriever_pb2.PlanResponse | None:
        """Returns the plan of a scope without documents that are ready; None where there are some, or a selection.

        Args:
            tenant: Who asks.
            scope: What the question is about. Selected documents and a collection may not exist: the search says so.
            strategy: How the question's context is planned.
            max_tokens: What whole items may have together; None is the tenant plan's.

        Raises:
            CitewireError: The retriever can't say.
        """
        if is_narrowed(scope):
            return None
        key = (tenant.org_id, tenant.user_id, scope.SerializeToString(deterministic=True))
        if key in self._filled:
            return None
        plan = await self._retriever.plan(
            retriever_pb2.PlanRequest(scope=scope, strategy=strategy, max_tokens=max_tokens)
        )
        if not plan.counts.items:
            return plan
        self._filled[key] = None
        return None

    def forget(self, org_id: str) -> None:
        """Forgets an organisation's libraries: documents were deleted."""
        for key in [key for key in self._filled if key[0] == org_id]:
            self._filled.pop(key, None)


def is_narrowed(scope: retriever_pb2.Scope) -> bool:
    """Whether the request chose among the documents."""
    return bool(scope.selection.document_ids) or scope.HasField("filter") or bool(scope.collection)
