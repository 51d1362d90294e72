"""Parameters of query strings that several routes share."""

from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator

from citewire_gateway.http.bodies import unstorable


def _clean(text: str) -> str:
    wrong = unstorable(text)
    if wrong is not None:
        raise ValueError(wrong)
    return text


Clean = AfterValidator(_clean)
PageSize = Annotated[int | None, Query(ge=0, le=1000, description="How many a page; absent or 0 means the default.")]
PageToken = Annotated[str | None, Query(max_length=1000, description="`next_page_token` of the page before."), Clean]
