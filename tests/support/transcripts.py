"""Recorded answers of providers, and their content, parsed directly by the rules of their documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from citewire_generator.model import FinishReason, Usage

OPENAI: Final = ("openai-chat", "openai-compatible", "azure-openai", "groq", "openrouter", "huggingface-router")
ANTHROPIC: Final = "anthropic"
OLLAMA: Final = "ollama"
RESPONSES: Final = "openai-responses"

_TYPES: Final = {OLLAMA: "application/x-ndjson"}
_REASONS: Final = {
    "stop": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "pause_turn": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.REFUSAL,
}


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """The content of a recording."""

    text: str
    reason: FinishReason
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Transcript:
    """One recording."""

    name: str
    kind: str
    """The adapter that reads it."""
    status: int
    content_type: str
    events: tuple[bytes, ...]
    """Its bytes, divided after each event."""
    fails: bool = False
    """Whether it ends in an error object."""

    @property
    def raw(self) -> bytes:
        """All of its bytes."""
        return b"".join(self.events)

    def expected_answer(self) -> ExpectedAnswer:
        """Its content."""
        rows = [_payload(event) for event in self.events]
        return _ANSWER_READERS[self.kind]([row for row in rows if row])

    def terminal(self) -> int:
        """Index of the event that ends the answer."""
        for index, event in enumerate(self.events):
            row = _payload(event)
            if self.kind == ANTHROPIC and row.get("type") == "message_stop":
                return index
            if self.kind == RESPONSES and row.get("type") == "response.completed":
                return index
            if self.kind == OLLAMA and row.get("done"):
                return index
            if self.kind == "openai" and any(choice.get("finish_reason") for choice in row.get("choices") or ()):
                return index
        raise AssertionError(f"{self.name} has no end")


def streams(shared_data: Path) -> list[Transcript]:
    """All recorded streams of chat answers."""
    results: list[Transcript] = []
    for entry, raw in _entries(shared_data):
        if entry["status"] == 200 and entry["stream"]:
            kind, name = entry["kind"], entry["file"]
            content_type = _TYPES.get(kind, "text/event-stream")
            fails = "midstream" in name
            results.append(Transcript(name, kind, 200, content_type, tuple(_events(name, raw)), fails))
    return results


def answers(shared_data: Path) -> list[Transcript]:
    """All recorded unstreamed answers, errors included."""
    return [
        Transcript(entry["file"], entry["kind"], entry["status"], "application/json", (raw,))
        for entry, raw in _entries(shared_data)
        if not entry["stream"] and "embeddings" not in entry["features"]
    ]


def _entries(shared_data: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    folder = shared_data / "provider-transcripts"
    for line in (folder / "index.jsonl").read_text("utf-8").splitlines():
        entry: dict[str, Any] = json.loads(line)
        kind = "openai" if entry["provider"] in OPENAI else entry["provider"]
        if kind in _ANSWER_READERS:
            yield entry | {"kind": kind}, (folder / entry["file"]).read_bytes()


def _events(name: str, raw: bytes) -> Iterator[bytes]:
    if name.endswith(".sse"):
        yield from (part + b"\n\n" for part in raw.replace(b"\r\n", b"\n").strip().split(b"\n\n"))
    elif name.endswith(".chunks.jsonl"):
        yield from (b"data: " + row + b"\n\n" for row in raw.splitlines() if row.strip())
    else:
        yield from (row + b"\n" for row in raw.splitlines() if row.strip())


def _payload(event: bytes) -> dict[str, Any]:
    """An event's object; empty for comments and `[DONE]`."""
    data = event.strip()
    if not data.startswith(b"{"):
        lines = (line.removeprefix(b"data:").strip() for line in data.splitlines() if line.startswith(b"data:"))
        data = next(lines, b"")
    return {} if data in {b"", b"[DONE]"} else json.loads(data)


def _openai(rows: list[dict[str, Any]]) -> ExpectedAnswer:
    text, reason, refused = "", "", False
    usage: dict[str, Any] = {}
    for row in rows:
        of_groq: dict[str, Any] = row.get("x_groq") or {}
        usage = cast("dict[str, Any]", row.get("usage") or of_groq.get("usage") or usage)
        for choice in cast("list[dict[str, Any]]", row["choices"][:1]):
            delta: dict[str, Any] = choice.get("delta") or choice.get("message") or {}
            refused = refused or bool(delta.get("refusal"))
            text += (delta.get("content") or "") + (delta.get("refusal") or "")
            reason = choice.get("finish_reason") or reason
    spent = None
    if usage:
        details: dict[str, Any] = usage.get("prompt_tokens_details") or {}
        spent = Usage(
            usage["prompt_tokens"],
            details.get("cached_tokens") or 0,
            usage["completion_tokens"],
            cache_write_prompt_tokens=details.get("cache_write_tokens") or 0,
        )
    return ExpectedAnswer(text, FinishReason.REFUSAL if refused else _REASONS[reason], spent)


def _responses(rows: list[dict[str, Any]]) -> ExpectedAnswer:
    """A file may have further responses after the first, which aren't read; one lacks some deltas."""
    end = next(index for index, row in enumerate(rows) if row.get("type") in {"response.completed", None})
    answer: dict[str, Any] = rows[end].get("response") or rows[end]
    parts: list[dict[str, Any]] = [
        part for item in answer["output"] if item["type"] == "message" for part in item["content"]
    ]
    refused = any(part["type"] == "refusal" for part in parts)
    text = "".join(part.get("text") or part.get("refusal") or "" for part in parts)
    if end:  # streamed
        kinds = {"response.output_text.delta", "response.refusal.delta"}
        text = "".join(row["delta"] for row in rows[:end] if row["type"] in kinds)
    usage = answer["usage"]
    spent = Usage(usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"])
    return ExpectedAnswer(text, FinishReason.REFUSAL if refused else FinishReason.STOP, spent)


def _anthropic(rows: list[dict[str, Any]]) -> ExpectedAnswer:
    text, reason = "", ""
    usage: dict[str, Any] = {}
    for row in rows:
        if row["type"] == "message":
            text = "".join(block.get("text", "") for block in row["content"] if block["type"] == "text")
            reason, usage = row["stop_reason"], row["usage"]
        elif row["type"] == "message_start":
            usage = row["message"]["usage"]
        elif row["type"] == "content_block_start" and row["content_block"]["type"] == "text":
            text += row["content_block"]["text"]
        elif row["type"] == "content_block_delta" and row["delta"]["type"] == "text_delta":
            text += row["delta"]["text"]
        elif row["type"] == "message_delta":
            reason = row["delta"]["stop_reason"] or reason
            usage = usage | {name: count for name, count in row["usage"].items() if count is not None}
    read, written = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
    prompt, completion = usage["input_tokens"] + read + written, usage["output_tokens"]
    return ExpectedAnswer(text, _REASONS[reason], Usage(prompt, read, completion, cache_write_prompt_tokens=written))


def _ollama(rows: list[dict[str, Any]]) -> ExpectedAnswer:
    if "choices" in rows[0]:
        return _openai(rows)  # Ollama's servers speak both
    text = "".join(row.get("message", {}).get("content") or row.get("response") or "" for row in rows)
    last = rows[-1]
    spent = Usage(last.get("prompt_eval_count", 0), 0, last["eval_count"]) if "eval_count" in last else None
    return ExpectedAnswer(text, _REASONS[last.get("done_reason") or "stop"], spent)


_ANSWER_READERS: Final = {"openai": _openai, ANTHROPIC: _anthropic, OLLAMA: _ollama, RESPONSES: _responses}
