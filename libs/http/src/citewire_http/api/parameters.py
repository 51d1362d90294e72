"""Parameters that several routes share.

Dependencies are coroutines, also those that wait for nothing: FastAPI runs plain functions in a thread.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from fastapi import Depends, Header, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AfterValidator

from citewire_http.bodies import unstorable
from citewire_kit.errors import Violations, invalid_field

MAX_KEY = 255


async def check_parameters(request: Request) -> None:
    """Rejects query parameters that the route doesn't know or that are repeated, because they would have no effect.

    In the path, it rejects characters that no name can contain.

    Raises:
        InvalidArgument: Names each of them.
    """
    wrong = Violations()
    for name, text in request.path_params.items():
        wrong.require((why := unstorable(str(text))) is None, name, why or "")
    wrong.raise_if_any()
    if not request.query_params:
        return
    route: APIRoute = request.scope["route"]
    known = sorted(_query_names(route.dependant))
    for name, count in Counter(name for name, _ in request.query_params.multi_items()).items():
        if wrong.require(name in known, name[:64], _unknown_parameter(known)):
            wrong.require(count == 1, name, "is given more than once")
    wrong.raise_if_any()


def _query_names(dependant: Dependant) -> set[str]:
    """The parameters that a route and its dependencies read."""
    names = {field.alias for field in dependant.query_params}
    return names.union(*(_query_names(inner) for inner in dependant.dependencies))


def _unknown_parameter(known: Sequence[str]) -> str:
    takes = f"it takes {', '.join(known)}" if known else "it takes none"
    return f"is not a parameter of this request: {takes}"


async def idempotency_key(
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="For 24 hours, repeating a request with the same key returns the first response instead of "
            "running it again. The same key with a different request is a 409.",
            json_schema_extra={"maxLength": MAX_KEY},
        ),
    ] = None,
) -> str | None:
    """Returns the request's Idempotency-Key, or None.

    Raises:
        InvalidArgument: It isn't 1-255 printable characters.
    """
    if key is not None and not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        raise invalid_field("Idempotency-Key", f"must be 1-{MAX_KEY} printable ASCII characters")
    return key


IdempotencyDep = Annotated[str | None, Depends(idempotency_key)]


def _check_text(text: str) -> str:
    wrong = unstorable(text)
    if wrong is not None:
        raise ValueError(wrong)
    return text


Clean = AfterValidator(_check_text)
PageSize = Annotated[int | None, Query(ge=0, le=1000, description="Page size; absent or 0 means the default.")]
PageToken = Annotated[str | None, Query(max_length=1000, description="`next_page_token` of the previous page."), Clean]
SearchText = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="Only those that contain this, ignoring case."),
    Clean,
]
