"""Examples of the compatible APIs, for the OpenAPI document."""

import json
from typing import Any

Docs = dict[str, Any]

MODEL: Docs = {"id": "grounded", "object": "model", "created": 1767225600, "owned_by": "citewire"}
_ANNOTATION: Docs = {
    "type": "url_citation",
    "url_citation": {
        "start_index": 20,
        "end_index": 27,
        "url": "http://127.0.0.1:8080/v1/documents/7/content?version=1#page=3",
        "title": "report.pdf § Results",
    },
}
_HEAD: Docs = {"id": "chatcmpl-0a1b2c", "created": 1768470000, "model": "grounded"}
COMPLETION: Docs = {
    **_HEAD,
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Revenue grew by 12 %[ref:1].",
                "refusal": None,
                "annotations": [_ANNOTATION],
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 812, "completion_tokens": 44, "total_tokens": 856},
}
EMBEDDINGS: Docs = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.0123, -0.0456]}],
    "model": "all-MiniLM-L6-v2",
    "usage": {"prompt_tokens": 5, "total_tokens": 5},
}
RERANKED: Docs = {
    "id": "0a1b2c",
    "model": "default",
    "results": [{"index": 1, "relevance_score": 0.91}, {"index": 0, "relevance_score": 0.12}],
}


def _chunk(delta: Docs, finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return f"data: {json.dumps({**_HEAD, 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"


COMPLETION_STREAM = (
    _chunk({"role": "assistant", "content": ""})
    + _chunk({"content": "Revenue grew by 12 %[ref:1]."})
    + _chunk(
        {
            "content": "\n\nSources:\n- [1] [report.pdf § Results](http://127.0.0.1:8080/v1/documents/7/content?version=1)"
        }
    )
    + _chunk({"annotations": [_ANNOTATION]}, "stop")
    + "data: [DONE]\n\n"
)
