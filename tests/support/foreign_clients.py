"""Calls of clients that others wrote for others' APIs, to our address; prints what came back as one line of JSON.

Runs in an environment that has the client and nothing of ours: python foreign_clients.py CLIENT URL
"""

from __future__ import annotations

import json
import sys
from typing import Any

# pyright: basic
# each call has an environment of its own
QUESTION = "How much did it grow?"


def cohere(url: str) -> dict[str, Any]:
    """Rerank, by both versions of the client."""
    import cohere  # pyright: ignore[reportMissingImports] # of its own environment

    asked = {"model": "", "query": QUESTION, "documents": ["a", "b", "c"], "top_n": 2}
    told: dict[str, Any] = {}
    for name, kind in (("v1", cohere.Client), ("v2", cohere.ClientV2)):
        reply = kind(api_key="none is asked for", base_url=url).rerank(**asked)
        told[name] = [[entry.index, entry.relevance_score] for entry in reply.results]
    return told


def langchain(url: str) -> dict[str, Any]:
    """Chat, streamed and whole, structured output, embeddings."""
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings  # pyright: ignore[reportMissingImports] # of its own environment

    there = {"base_url": f"{url}/v1", "api_key": "none is asked for"}
    model = ChatOpenAI(model="grounded", max_retries=0, **there)
    whole = model.invoke(QUESTION)
    pieces = [chunk.content for chunk in model.stream(QUESTION)]
    # Its own tokenizer would be loaded from the internet; arrays of tokens are in the tests of OpenAI's client.
    vectors = OpenAIEmbeddings(model="", check_embedding_ctx_length=False, **there).embed_documents(["a"])
    return {
        "whole": whole.content,
        "tokens": whole.usage_metadata["total_tokens"],
        "streamed": "".join(pieces),
        "pieces": len(pieces),
        "vectors": vectors,
    }


def langchain_structured(url: str) -> dict[str, Any]:
    """An answer in the form of a schema."""
    from langchain_openai import ChatOpenAI  # pyright: ignore[reportMissingImports] # of its own environment

    schema = {
        "title": "Growth",
        "type": "object",
        "properties": {"growth": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["growth", "year"],
        "additionalProperties": False,
    }
    model = ChatOpenAI(model="grounded", base_url=f"{url}/v1", api_key="none is asked for", max_retries=0)
    return model.with_structured_output(schema, method="json_schema", strict=True).invoke(QUESTION)


def litellm(url: str) -> dict[str, Any]:
    """Chat by the wires of OpenAI and Anthropic, rerank by Cohere's, embeddings."""
    import litellm  # pyright: ignore[reportMissingImports] # of its own environment

    messages = [{"role": "user", "content": QUESTION}]
    by_openai = {"model": "openai/grounded", "api_base": f"{url}/v1", "api_key": "none is asked for"}
    by_anthropic = {"model": "anthropic/grounded", "api_base": f"{url}/anthropic", "api_key": "none is asked for"}
    reranked = litellm.rerank(
        model="cohere/", query=QUESTION, documents=["a", "b", "c"], top_n=2, api_base=url, api_key="none is asked for"
    )
    told = {
        "rerank": [entry["index"] for entry in reranked.results],
        "embedding": litellm.embedding(
            model="openai/", input=["a"], api_base=f"{url}/v1", api_key="none is asked for", encoding_format="float"
        ).data[0]["embedding"],
    }
    for name, there in (("openai", by_openai), ("anthropic", by_anthropic)):
        told[name] = litellm.completion(messages=messages, **there).choices[0].message.content
        stream = litellm.completion(messages=messages, stream=True, **there)
        told[f"{name}_streamed"] = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    return told


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](sys.argv[2])) + "\n")
