"""A running gateway with two documents stored by LangChain's own classes."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from langchain_core.documents import Document

from citewire_client import Citewire
from langchain_citewire import CitewireRetriever

WATER = """# Water

At sea level water boils at 100 degrees.

# Ice

Ice melts at 0 degrees.

# Steam

Steam above 374 degrees can't become a liquid, whatever the pressure.
"""
METADATA = {
    "source": "https://example.org/water.md",
    "page": 3,
    "authors": ["Kim", "Noor"],
    "nested": {"reviewed": True},
}


@pytest.fixture(scope="session")
def collection() -> Iterator[str]:
    """A collection for this test in the gateway at `CITEWIRE_URL`."""
    name = f"langchain-{uuid4().hex[:8]}"
    documents = [
        Document(page_content=WATER, metadata=METADATA),
        Document(page_content="Hello. The helpdesk answers hello and other greetings from 9 to 17 o'clock."),
    ]
    CitewireRetriever(collection=name).add_documents(documents, tags=["example"])
    yield name
    with Citewire() as client:
        client.delete_collection(name, force=True)
