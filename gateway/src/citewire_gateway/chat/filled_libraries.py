"""Which libraries have documents: an empty one is answered without embedding the question."""

import time
from collections.abc import Callable
from typing import Final

from cachetools import TTLCache
from citewire.retriever.v1 import retriever_pb2

from citewire_gateway.clients.retriever import Retriever
from citewire_kit.tenant import Tenant

_SECONDS: Final = 30.0
"""How long a library emptied elsewhere still counts as filled: questions are embedded needlessly meanwhile."""
_MAX_ENTRIES: Final = 10_000


class FilledLibraries:
    """Caches for a while that a library has documents, so that only the first question has to wait for the check.

    That one is empty isn't cached, so that new documents count at once.
    """

    def __init__(self, retriever: Retriever, clock: Callable[[], float] = time.monotonic) -> None:
        self._retriever = retriever
        self._filled = TTLCache[tuple[str, str, bytes], None](_MAX_ENTRIES, _SECONDS, timer=clock)

    async def plan_if_empty(
        self, tenant: Tenant, scope: retriever_pb2.Scope, strategy: retriever_pb2.Strategy, max_tokens: int | None
    ) -> retriever_pb2.PlanResponse | None:
        """Returns the plan for a scope without ready documents; None if there are some, or a selection.

        Args:
            tenant: The caller.
            scope: The question's scope. Selected documents and a collection may not exist; the search reports that.
            strategy: How the question's context is planned.
            max_tokens: Maximum tokens of whole items together; None for the tenant plan's.

        Raises:
            CitewireError: The retriever's call failed.
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
        """Clears an organisation's libraries from the cache, because documents were deleted."""
        for key in [key for key in self._filled if key[0] == org_id]:
            self._filled.pop(key, None)


def is_narrowed(scope: retriever_pb2.Scope) -> bool:
    """Whether the request selects documents."""
    return bool(scope.selection.document_ids) or scope.HasField("filter") or bool(scope.collection)
