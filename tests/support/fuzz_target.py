"""A running stack with two organisations: one with secrets, and one whose keys are used to search for them."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from hypothesis import HealthCheck

from api_keys import bearer
from local_stack import LocalStack, local_stack

VICTIM, ATTACKER = "acme", "evil"
CANARY = "canary-7f3a91"
"""Appears in all data of the victim, and in nothing that the attacker receives."""

HEALTH_CHECKS = (
    HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example,
)  # fmt: skip
"""Hypothesis's health checks that don't apply here: answers may take any time."""


@dataclass(frozen=True)
class KnownValues:
    """Values that an attacker may know: ids and names, the victim's and its own."""

    document_ids: Sequence[int]
    chunk_ids: Sequence[int]
    conversation_ids: Sequence[str]
    names: Sequence[str]
    """Names of collections, profiles and groups."""
    key_ids: Sequence[str]
    vectors: Sequence[bytes]
    """A question's vector in the live space."""
    model: str
    revision: str
    users: Sequence[str] = ("secret-user",)
    groups: Sequence[str] = ("secret-group",)
    subjects: Sequence[str] = ("user:secret-user", "group:secret-group", "everyone")


@dataclass(frozen=True)
class FuzzTarget:
    """The stack, and how to reach it as either organisation."""

    stack: LocalStack
    victim: dict[str, str]
    """HTTP headers."""
    attacker: dict[str, str]
    operator: dict[str, str]
    known: KnownValues

    def secrets(self) -> dict[str, Any]:
        """All data that the victim can read now."""
        with _client(self.stack, self.victim) as client:
            documents = _get(client, "/v1/documents?page_size=100")["documents"]
            return {
                "documents": documents,
                "texts": [client.get(f"/v1/documents/{document['id']}/text").text for document in documents],
                "collections": _get(client, "/v1/collections"),
                "conversations": [_get(client, f"/v1/conversations/{name}") for name in self._conversations(client)],
                "profile": _get(client, "/v1/profiles/secret-profile"),
                "organisation": _get(client, "/v1/admin/organisation"),
                "users": _get(client, "/v1/admin/users"),
                "groups": _get(client, "/v1/admin/groups"),
                "members": _get(client, "/v1/admin/groups/secret-group/members"),
                "grants": _get(client, "/v1/collections/secret-collection/grants"),
                "retention": _get(client, "/v1/admin/retention"),
                "limits": _get(client, "/v1/admin/limits"),
                "budgets": _get(client, "/v1/budgets"),
                "keys": [key["id"] for key in _get(client, "/v1/keys")["keys"]],
                "spaces": self._spaces(client),
            }

    def _spaces(self, client: httpx.Client) -> list[dict[str, Any]]:
        # A worker measures their scale when it has time.
        return [{**space, "scale": None} for space in _get(client, "/v1/spaces")["spaces"]]

    def _conversations(self, client: httpx.Client) -> list[str]:
        return [conversation["id"] for conversation in _get(client, "/v1/conversations")["conversations"]]


@contextmanager
def fuzz_target(folder: Path) -> Generator[FuzzTarget]:
    """Starts a stack that requires keys, and fills both organisations."""
    with local_stack(folder, arguments=("--no-sample",), environ={"CITEWIRE_AUTH": "keys"}) as stack:
        victim, attacker = (
            bearer(_make_key(folder, "keys", "create", "--org", org, "--user", "ann")) for org in (VICTIM, ATTACKER)
        )
        operator = bearer(_make_key(folder, "operator", "keys", "create"))
        secret = _fill(stack, victim, CANARY)
        own = _fill(stack, attacker, "plain")
        known = KnownValues(
            [*secret.document_ids, *own.document_ids],
            [*secret.chunk_ids, *own.chunk_ids],
            [*secret.conversation_ids, *own.conversation_ids],
            secret.names,
            secret.key_ids,  # not its own: without a key nothing more can be tried
            own.vectors,
            own.model,
            own.revision,
        )
        yield FuzzTarget(stack, victim, attacker, operator, known)


def _make_key(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "citewire_cli", *command, "--json"],
        env={"CITEWIRE_DATA_DIR": str(folder)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    return str(json.loads(done.stdout)["key"])


def _fill(stack: LocalStack, headers: dict[str, str], word: str) -> KnownValues:
    with _client(stack, headers) as client:
        ids: list[int] = []
        for number in range(3):
            made = client.post(
                "/v1/documents",
                json={
                    "type": "article",
                    "title": f"{word} report {number}",
                    "content": f"# {word} {number}\n\nThe {word} lighthouse keeper earns {number + 4}00 crowns.\n",
                    "tags": [word],
                    "metadata": {"entity_type": word},
                    "collection": "secret-collection",
                },
            )
            made.raise_for_status()
            ids.append(made.json()["id"])
        _wait_ready(client, ids)
        client.put("/v1/profiles/secret-profile", json={"base": "documents", "description": word}).raise_for_status()
        client.post("/v1/admin/groups", json={"name": "secret-group"}).raise_for_status()
        for user in ("secret-user", f"{word}-user"):
            client.post("/v1/admin/users", json={"user": user}).raise_for_status()
            client.put(f"/v1/admin/groups/secret-group/members/{user}").raise_for_status()
        answer = client.post(
            "/v1/chat", json={"question": f"What does the {word} lighthouse keeper earn?", "stream": False}
        )
        answer.raise_for_status()
        response = client.post("/v1/search", json={"query": "lighthouse keeper", "top_k": 10})
        response.raise_for_status()
        embedded = client.post("/v1/embeddings", json={"input": "lighthouse keeper", "model": ""})
        embedded.raise_for_status()
        vector: list[float] = embedded.json()["data"][0]["embedding"]
        space = _get(client, "/v1/spaces")["spaces"][0]
        return KnownValues(
            ids,
            [result["chunk_id"] for result in response.json()["results"]],
            [answer.json()["conversation_id"]],
            ["secret-collection", "secret-profile", "secret-group"],
            [key["id"] for key in _get(client, "/v1/keys")["keys"]],
            [struct.pack(f"<{len(vector)}f", *vector)],
            space["model"],
            space["revision"],
        )


def _wait_ready(client: httpx.Client, ids: Sequence[int]) -> None:
    deadline = time.monotonic() + 120
    while any(_get(client, f"/v1/documents/{number}")["status"] != "ready" for number in ids):
        assert time.monotonic() < deadline, "the documents aren't ready"
        time.sleep(0.1)  # nothing announces this state


def _client(stack: LocalStack, headers: dict[str, str]) -> httpx.Client:
    return httpx.Client(base_url=stack.base_url, headers=headers, trust_env=False, timeout=60)


def _get(client: httpx.Client, path: str) -> dict[str, Any]:
    response = client.get(path)
    response.raise_for_status()
    return response.json()
