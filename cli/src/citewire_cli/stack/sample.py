"""The sample library: a few documents of an imaginary ferry line, so that there is something to ask about."""

from pathlib import Path

from citewire_cli.api import Api
from citewire_cli.files import Source, find_sources
from citewire_cli.jsonio import get_objects, get_str

FOLDER = Path(__file__).resolve().parent.parent / "sample_library"
"""In a clone this is a link to `examples/library/`, in a wheel a copy of it."""

QUESTION = "How much is the meal allowance per day abroad?"
ANSWERED_BY = "travel-expenses.md"


def sample_sources() -> list[Source]:
    """The files of the sample library."""
    return find_sources([FOLDER], root=FOLDER)[0]


async def is_present(api: Api) -> bool:
    """Whether the document that answers QUESTION is in the library."""
    page = await api.call("GET", "/v1/documents", params={"page_size": 100})
    return any(get_str(document, "file_name") == ANSWERED_BY for document in get_objects(page, "documents"))


async def is_library_empty(api: Api) -> bool:
    """Whether the gateway has no document at all."""
    page = await api.call("GET", "/v1/documents", params={"page_size": 1})
    return not get_objects(page, "documents")
