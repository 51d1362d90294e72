"""Receiving an answer: canonical events of `POST /v1/chat` in, an Answer out."""

from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, field

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_objects, get_str, parse_object
from citewire_cli.sse import SseEvent

NOT_FOUND_SENTENCES = (
    "I could not find this information in the uploaded documents.",
    "I could not find content in the selected documents that closely matches your question.",
)
"""The start of an answer if the documents have none; the gateway guarantees the wording."""


@dataclass(slots=True)
class Answer:
    """A whole answer. `citations` is None until (unless) the stream sent them."""

    conversation_id: str = ""
    text: str = ""
    citations: list[JsonObject] | None = None
    usage: JsonObject = field(default_factory=dict[str, object])
    steps: list[JsonObject] = field(default_factory=list[JsonObject])
    verified: list[JsonObject] = field(default_factory=list[JsonObject])
    uncited: list[JsonObject] = field(default_factory=list[JsonObject])

    @property
    def has_answer(self) -> bool:
        """Whether the documents answered: False for the not-found sentences and for an empty citation list."""
        return self.citations != [] and not self.text.lstrip().startswith(NOT_FOUND_SENTENCES)

    def as_json(self) -> JsonObject:
        """The answer as `--json` prints it."""
        body: JsonObject = {"answer": self.text, "citations": self.citations or [], "usage": self.usage}
        if self.conversation_id:
            body["conversation_id"] = self.conversation_id
        if self.steps:
            body["steps"] = self.steps
        if self.verified:
            body["verified"] = self.verified
        if self.uncited:
            body["uncited"] = self.uncited
        return body


async def receive(
    events: AsyncIterable[SseEvent],
    *,
    on_token: Callable[[str], None],
    on_step: Callable[[str], None],
    on_verdict: Callable[[JsonObject], None] = lambda _: None,
) -> Answer:
    """Reads an answer to its `done`.

    Unknown events, and frames that aren't JSON, are skipped.

    Args:
        events: the stream.
        on_token: called with each piece of the answer's text, as it arrives.
        on_step: called with the text of each step.
        on_verdict: called with each `citation` and `uncited` event, the verdict on a sentence.

    Raises:
        CliError: the stream sent an `error`, or ended without `done` (a cut answer is never shown as a whole one).
    """
    answer = Answer()
    failure: CliError | None = None
    async for event in events:
        if event.event == "done":
            if failure is not None:
                raise failure
            return answer
        data = parse_object(event.data)
        if data is None:
            continue
        match event.event:
            case "conversation":
                answer.conversation_id = get_str(data, "conversation_id")
            case "citations":
                answer.citations = get_objects(data, "citations")
            case "token":
                text = get_str(data, "text")
                answer.text += text
                on_token(text)
            case "step":
                answer.steps.append(data)
                on_step(get_str(data, "text") or get_str(data, "name"))
            case "citation":
                answer.verified.append(data)
                on_verdict(data)
            case "uncited":
                answer.uncited.append(data)
                on_verdict(data)
            case "usage":
                answer.usage = data
            case "error":
                failure = CliError("The answer failed", get_str(data, "text"), reason=get_str(data, "reason"))
            case _:
                pass
    raise failure or CliError(
        "The answer was cut off",
        "The stream ended before it was complete; ask again.",
        ExitCode.FAILED,
    )
