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
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Ask a question; the answer streams to the terminal, numbered sources below it.

    Ctrl-C cancels the answer. Exits with 5 if the documents hold no answer, with 1 if the answer failed or was cut.
    """
    text = output.checked_text(sys.stdin.read() if question == "-" else question, "The question")
    body: JsonObject = {"question": text}
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
        _print_sources(answer)
    return ExitCode.OK if answer.has_answer else ExitCode.NOT_FOUND


async def _receive(api: Api, body: JsonObject, *, quiet: bool) -> Answer:
    printed = False
    notes = output.stderr()

    def on_token(text: str) -> None:
        nonlocal printed
        if not quiet:
            printed = True
            sys.stdout.write(output.clean(text))
            sys.stdout.flush()

    def on_step(text: str) -> None:
        if not quiet and notes.is_terminal:
            notes.print(Text(f"· {output.one_line(text, 200)}", style="dim"))

    try:
        async with api.events("/v1/chat", body) as events:
            return await receive(events, on_token=on_token, on_step=on_step)
    except CliError as error:
        if error.code is ExitCode.UNREACHABLE and printed:
            # Part of an answer has been shown: to a script this is a failed answer, not a gateway that isn't there.
            raise CliError("The answer was cut off", error.detail) from None
        raise
    finally:
        if printed:
            sys.stdout.write("\n")
            sys.stdout.flush()


def _print_sources(answer: Answer) -> None:
    if not answer.citations:
        return
    console = output.stdout()
    console.print()
    console.print(Text("Sources" if answer.has_answer else "Looked at, and not found there", style="bold"))
    for position, citation in enumerate(answer.citations, start=1):
        number = get_int(citation, "index") or position
        for line in source_lines(number, citation, get_str(citation, "snippet")):
            console.print(line)
