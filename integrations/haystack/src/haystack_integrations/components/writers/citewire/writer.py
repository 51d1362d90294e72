"""A writer that stores documents in a collection."""

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret, deserialize_secrets_inplace

from citewire_client.adapters import GatewayConnection, document_fields, require_readable


@component
class CitewireWriter:
    """Stores the documents of converters, with their metadata, in a collection.

    Example:
        ```python
        from haystack import Document
        from haystack_integrations.components.writers.citewire import CitewireWriter

        CitewireWriter(collection="physics").run([Document(content="Water boils.", meta={"page": 3})])
        ```
    """

    def __init__(
        self,
        collection: str | None = None,
        tags: list[str] | None = None,
        wait: bool = True,
        wait_seconds: float = 300.0,
        base_url: str | None = None,
        api_key: Secret | None = Secret.from_env_var("CITEWIRE_API_KEY", strict=False),  # noqa: B008 # it is immutable
        timeout: float | None = None,
        max_retries: int = 2,
    ) -> None:
        """Prepares a writer; no request is sent.

        Args:
            collection: The collection to store in; None: no collection.
            tags: Tags for all documents.
            wait: Whether to wait until they can be found.
            wait_seconds: Maximum wait for each document.
            base_url: The gateway's address; None: `CITEWIRE_URL`, or `http://127.0.0.1:8080`.
            api_key: An API key or token.
            timeout: Seconds without data after which a connection counts as lost; None: 60.
            max_retries: Number of retries after the first try.
        """
        self.collection = collection
        self.tags = tags or []
        self.wait = wait
        self.wait_seconds = wait_seconds
        self.base_url = base_url
        self.api_key = api_key
        self.timeout = timeout
        self.max_retries = max_retries
        key = None if api_key is None else api_key.resolve_value()
        self._gateway = GatewayConnection(base_url, key, timeout=timeout, retries=max_retries)

    def to_dict(self) -> dict[str, Any]:
        """Serialises the component, as Haystack does when it saves a pipeline."""
        names = ("collection", "tags", "wait", "wait_seconds", "base_url", "timeout", "max_retries")
        fields = {name: getattr(self, name) for name in names}
        return default_to_dict(self, **fields, api_key=None if self.api_key is None else self.api_key.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "CitewireWriter":
        """Restores the component from a saved pipeline."""
        deserialize_secrets_inplace(data["init_parameters"], keys=["api_key"])
        return default_from_dict(cls, data)

    @component.output_types(documents_written=int, document_ids=list[str])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Stores each document separately; Citewire splits it into passages.

        Returns:
            `documents_written`, and `document_ids` in the order of the documents.

        Raises:
            CitewireError: A document was rejected, wasn't ready in time, or couldn't be read; earlier ones are stored.
            ValueError: A document has no text.
        """
        client = self._gateway.blocking
        stored = [client.add_document(**fields) for fields in self._uploads(documents)]
        if self.wait:
            stored = [client.wait_for_document(document.id, timeout=self.wait_seconds) for document in stored]
        ids = [str(require_readable(document).id) for document in stored]
        return {"documents_written": len(ids), "document_ids": ids}

    @component.output_types(documents_written=int, document_ids=list[str])
    async def run_async(self, documents: list[Document]) -> dict[str, Any]:
        """The asynchronous form of `run`."""
        async with self._gateway.awaiting() as client:
            stored = [await client.add_document(**fields) for fields in self._uploads(documents)]
            if self.wait:
                stored = [await client.wait_for_document(document.id, timeout=self.wait_seconds) for document in stored]
        ids = [str(require_readable(document).id) for document in stored]
        return {"documents_written": len(ids), "document_ids": ids}

    def _uploads(self, documents: list[Document]) -> list[dict[str, Any]]:
        more = {name: value for name, value in (("collection", self.collection), ("tags", self.tags)) if value}
        return [document_fields(_text(document, at), document.meta) | more for at, document in enumerate(documents)]


def _text(document: Document, at: int) -> str:
    if not document.content:
        raise ValueError(f"documents.{at}.content: must not be empty; upload files with citewire_client")
    return document.content
