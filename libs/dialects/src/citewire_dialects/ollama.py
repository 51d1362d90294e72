"""The response to Ollama's clients: its API isn't supported, as its paths are those of our own routes."""

from typing import Any

from fastapi import Request

from citewire_kit.errors import CitewireError

_AGENT = "ollama-"
"""User agents of its clients for Python and JavaScript."""


def ollama_members(request: Request, error: CitewireError) -> dict[str, Any]:
    """Returns the member of a problem document that Ollama's clients show; other clients get none."""
    del error
    if not request.url.path.startswith("/api/") or not request.headers.get("user-agent", "").startswith(_AGENT):
        return {}
    address = f"{str(request.base_url).rstrip('/')}/v1"
    return {
        "error": "Ollama's API isn't supported: use an OpenAI client with a profile, such as grounded, "
        f"as its model ({address})"
    }
