"""Pages of lists that are short enough to be read whole."""

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends

from citewire_http.api.parameters import PageSize, PageToken, SearchText
from citewire_kit.errors import FieldViolation, InvalidArgument

T = TypeVar("T")

_MOST = 1000
"""Items of a page, also by default, because these lists were complete before they had pages."""


@dataclass(frozen=True, slots=True)
class Pages:
    """A request's parameters for a page."""

    size: int
    token: str
    q: str

    def page(
        self, items: Iterable[T], key: Callable[[T], tuple[str, ...]], text: Callable[[T], str]
    ) -> tuple[list[T], str]:
        """Returns the items of one page, in the order of their keys, and the token of the next; "" if there is none.

        A page begins after the key of the previous page's last item, so that additions and deletions don't move others.

        Args:
            items: All items.
            key: Returns an item's key.
            text: Returns the text that `q` searches.

        Raises:
            InvalidArgument: The token isn't one of this list's (reason `INVALID_PAGE_TOKEN`).
        """
        after, part = read_token(self.token, self.q), self.q.casefold()
        left = sorted((item for item in items if part in text(item).casefold() and key(item) > after), key=key)
        page = left[: self.size]
        return page, write_token(self.q, key(page[-1])) if len(left) > len(page) else ""


async def _pages(page_size: PageSize = None, page_token: PageToken = None, q: SearchText = None) -> Pages:
    return Pages(page_size or _MOST, page_token or "", q or "")


PagesDep = Annotated[Pages, Depends(_pages)]


def write_token(q: str, key: tuple[str, ...]) -> str:
    """Returns the token of the page that follows `key`, for requests with the same `q`."""
    return base64.urlsafe_b64encode(json.dumps([q, *key]).encode()).decode()


def read_token(token: str, q: str) -> tuple[str, ...]:
    """Returns the key after which a page begins; () for the first.

    Raises:
        InvalidArgument: The token isn't one of this list's (reason `INVALID_PAGE_TOKEN`).
    """
    if not token:
        return ()
    try:
        values: Any = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
        bound, *key = cast("list[object]", values) if isinstance(values, list) else []
        if bound == q and all(isinstance(part, str) for part in key):
            return tuple(map(str, key))
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise wrong_token()


def wrong_token() -> InvalidArgument:
    """Returns the error for an invalid page token (reason `INVALID_PAGE_TOKEN`)."""
    return InvalidArgument(
        "the page token didn't come from this list",
        reason="INVALID_PAGE_TOKEN",
        violations=[FieldViolation("page_token", "must be the next_page_token of the previous page, with the same q")],
    )
