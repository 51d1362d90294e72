"""`citewire search`: the chunks that fit a query, best first."""

from typing import Annotated, Literal

import typer

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.commands.options import CollectionOption, DocumentOption, JsonOption, UrlOption
from citewire_cli.errors import ExitCode
from citewire_cli.jsonio import JsonObject, get_objects, get_str
from citewire_cli.settings import load_client_settings
from citewire_cli.sources import source_lines


@output.async_command
async def search(
    query: Annotated[str, typer.Argument(help="What to look for.", show_default=False)],
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=200, help="How many results.")] = 10,
    mode: Annotated[
        Literal["dense", "lexical", "hybrid"] | None,
        typer.Option("--mode", help="Search mode; default: the gateway's."),
    ] = None,
    min_score: Annotated[float | None, typer.Option("--min-score", help="Lowest cosine similarity, 0 to 1.")] = None,
    document: DocumentOption = None,
    collection: CollectionOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Search the library without asking a model. Exits with 5 if nothing is found."""
    body: JsonObject = {"query": output.checked_text(query, "The query"), "top_k": top_k}
    options = {
        "mode": mode,
        "min_score": min_score,
        "document_ids": list(document) if document else None,
        "collection": collection,
    }
    body |= {key: value for key, value in options.items() if value is not None}
    async with Api(load_client_settings(url=url)) as api:
        answer = await api.call("POST", "/v1/search", body=body)
    results = get_objects(answer, "results")
    if json:
        output.print_json(answer)
    else:
        _print(results)
    return ExitCode.OK if results else ExitCode.NOT_FOUND


def _print(results: list[JsonObject]) -> None:
    console = output.stdout()
    if not results:
        console.print("Nothing found.")
    for number, result in enumerate(results, start=1):
        for line in source_lines(number, result, get_str(result, "content")):
            console.print(line)
