"""`citewire ask`: a question, a streamed answer, its sources."""

import sys
from typing import Annotated

import typer
from rich.text import Text

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.chat import Answer, receive
from citewire_cli.commands.options import CollectionOption, DocumentOption, JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_int, get_str
from citewire_cli.settings import load_client_settings
from citewire_cli.sources import source_lines
from citewire_cli.verdicts import VerdictText, cited_numbers

QUOTE_CHARACTERS = 300


@output.async_command
async def ask(
    question: Annotated[str, typer.Argument(help="The question; `-` reads it from stdin.", show_default=False)],
    profile: Annotated[str | None, typer.Option("--profile", "-p", help="The profile; default: the gateway's.")] = None,
    document: DocumentOption = None,
    collection: CollectionOption = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", help="Continue this conversation (its id).")
    ] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="How many chunks to answer from.")] = None,
    all_sources: Annotated[
        bool, typer.Option("--all-sources", help="Also list the passages that weren't cited.")
    ] = False,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Ask a question. The answer streams to the terminal, with a verdict for each cited sentence, then its sources.

    The verdict compares the sentence with its source, word for word: supported, partial or unsupported. Ctrl-C cancels
    the answer. Exits with 5 if the documents hold no answer, with 1 if the answer failed or was cut.
    """
    text = output.checked_text(sys.stdin.read() if question == "-" else question, "The question")
    body: JsonObject = {"question": text, "include": ["citation"]}
    options = {
        "profile": profile,
        "document_ids": list(document) if document else None,
        "collection": collection,
        "conversation_id": conversation,
        "top_k": top_k,
    }
    body |= {key: value for key, value in options.items() if value is not None}
    async with Api(load_client_settings(url=url)) as api:
        answer = await _receive(api, body, quiet=json)
    if json:
        output.print_json(answer.as_json())
    else:
        _print_sources(answer, every=all_sources)
    return ExitCode.OK if answer.has_answer else ExitCode.NOT_FOUND


async def _receive(api: Api, body: JsonObject, *, quiet: bool) -> Answer:
    printed = False
    notes = output.stderr()
    shown = VerdictText()

    def write(text: str) -> None:
        nonlocal printed
        if text and not quiet:
            printed = True
            sys.stdout.write(output.clean(text))
            sys.stdout.flush()

    def on_verdict(event: JsonObject) -> None:
        (shown.verified if "verdict" in event else shown.uncited)(event)

    def on_step(text: str) -> None:
        if not quiet and notes.is_terminal:
            notes.print(Text(f"· {output.one_line(text, 200)}", style="dim"))

    try:
        async with api.events("/v1/chat", body) as events:
            return await receive(
                events, on_token=lambda text: write(shown.feed(text)), on_step=on_step, on_verdict=on_verdict
            )
    except CliError as error:
        write(shown.end())
        if error.code is ExitCode.UNREACHABLE and printed:
            # Part of an answer has been shown: for a script this is a failed answer, not an unreachable gateway.
            raise CliError("The answer was cut off", error.detail) from None
        raise
    finally:
        write(shown.end())
        if printed:
            sys.stdout.write("\n")
            sys.stdout.flush()


def _print_sources(answer: Answer, *, every: bool) -> None:
    if not answer.citations:
        return
    console = output.stdout()
    cited = cited_numbers(answer.text, answer.verified) if answer.has_answer else set[int]()
    numbered = [(get_int(citation, "index") or place, citation) for place, citation in enumerate(answer.citations, 1)]
    sources = [(number, citation) for number, citation in numbered if number in cited]
    others = [(number, citation) for number, citation in numbered if number not in cited]
    if sources:
        console.print()
        console.print(Text("Sources", style="bold"))
    for number, citation in sources:
        quotes = _quotes(answer, number)
        lines = source_lines(number, citation, quotes, limit=len(quotes)) if quotes else _with_snippet(number, citation)
        for line in lines:
            console.print(line)
    if not others:
        return
    if every:
        console.print()
        console.print(Text("Read but not cited", style="bold"))
        for number, citation in others:
            for line in _with_snippet(number, citation):
                console.print(line)
    elif not sources:
        console.print()
        passages = "1 passage was" if len(others) == 1 else f"{len(others)} passages were"
        console.print(Text(f"{passages} read, and none is cited; --all-sources lists them.", style="dim"))


def _with_snippet(number: int, citation: JsonObject) -> list[Text]:
    return source_lines(number, citation, get_str(citation, "snippet"))


def _quotes(answer: Answer, number: int) -> str:
    """The source's own words for the sentences that cite it."""
    quotes = [get_str(citation, "quote") for citation in answer.verified if get_int(citation, "index") == number]
    return " … ".join(f"“{output.one_line(quote, QUOTE_CHARACTERS)}”" for quote in dict.fromkeys(filter(None, quotes)))
