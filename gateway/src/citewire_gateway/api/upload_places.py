"""The places that uploads hold, and refusals that cost little more than reading a request's head."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from starlette.types import Scope

from citewire_gateway.api.request_limits import is_upload
from citewire_http.middleware import header
from citewire_kit.errors import CitewireError
from citewire_kit.fair import FairShares, Holding
from citewire_kit.pace import no_place

_MOST_NOTED: Final = 10_000


class UploadPlaces(FairShares):
    """Places for uploads, in fair shares by organisation.

    Who was refused one comes again, often at once. Until its organisation may have a place, it is refused by what it is
    sent with, before its key is looked up: by its refusals alone, a flood would take the process from everybody else.
    """

    def __init__(self, places: int) -> None:
        """Starts with all places free."""
        super().__init__(places, lambda _: no_place("too many uploads at once"), beyond=True)
        self._refused: dict[str, str] = {}
        """Organisation by the header `Authorization`, which was valid when it was refused."""

    def check_head(self, scope: Scope) -> None:
        """Refuses an upload of who was refused before, and would be again.

        Raises:
            ResourceExhausted: Reason `OVERLOADED`.
        """
        if self._refused and is_upload(scope["path"], header(scope, b"content-type")):
            org_id = self._refused.get(header(scope, b"authorization"))
            if org_id is not None:
                self.check(org_id)

    @contextmanager
    def hold_for(self, org_id: str, authorization: str) -> Generator[Holding]:
        """Holds a place inside the block.

        Args:
            org_id: Whose upload it is.
            authorization: What the request was sent with; "" if it is known by something else.

        Raises:
            ResourceExhausted: There is none (`OVERLOADED`).
        """
        try:
            self.check(org_id)
        except CitewireError:
            if authorization and len(self._refused) < _MOST_NOTED:
                self._refused[authorization] = org_id
            raise
        self._refused.pop(authorization, None)
        with self.hold_now(org_id) as place:
            yield place
