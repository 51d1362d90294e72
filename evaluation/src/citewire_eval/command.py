"""`citewire eval` and its options."""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from citewire_cli.commands.options import JsonOption, UrlOption
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.output import async_command
from citewire_cli.settings import load_client_settings
from citewire_eval.gates import Gate
from citewire_eval.runner import EvalOptions, evaluate
from citewire_eval.search import SearchMode


class Mode(enum.StrEnum):
    """How to search."""

    DENSE = "dense"
    LEXICAL = "lexical"
    HYBRID = "hybrid"
    DENSE_RERANK = "dense+rerank"
    LEXICAL_RERANK = "lexical+rerank"
    HYBRID_RERANK = "hybrid+rerank"


DEFAULT_MODES = (Mode.DENSE, Mode.LEXICAL, Mode.HYBRID)
DEFAULT_PROFILE = "documents"

_PATHS = typer.Argument(
    metavar="PATH…", help="Data sets: folders or files in BEIR, SQuAD or ClapNQ form.", show_default=False
)
_FROM = typer.Option("--from", help="Also use the answers that people rated (owners and admins only).")
_EXPORT = typer.Option("--export", file_okay=False, help="With --from: also write that set to a folder in BEIR form.")
_MODE = typer.Option("--mode", help="Search mode; may be repeated. Default: dense, lexical, hybrid.")
_PROFILE = typer.Option(
    "--profile", "-p", help="Profile that answers; may be repeated. Default: documents. Implies --answers."
)
_LEAVE_OUT = typer.Option(
    "--leave-out", help="Ask again without the gold documents and their groups. Implies --answers."
)
_COLLECTION = typer.Option("--collection", "-c", help="The collection for sets without a corpus.")
_QUESTIONS = typer.Option(
    "--questions", "-n", min=1, help="Ask only this many questions of each set, always the same ones."
)
_BY = typer.Option("--by", help="Judge documents, or chunks where a set names the part that answers.")
_RERANK_SECONDS = typer.Option(
    "--rerank-seconds",
    min=0.01,
    max=20,
    help="Time limit of a rerank; may be repeated, for one row each. Default: the server's 3.",
)
_KEEP = typer.Option("--keep", min=0.5, max=0.9999, help="Share of gold chunks that the threshold must keep.")
_GATE = "Exit with 1 if a measure is {} this value, such as {}; MODE:MEASURE=VALUE for one mode or profile."


@async_command
async def eval_command(
    paths: Annotated[list[Path] | None, _PATHS] = None,
    source: Annotated[Literal["feedback"] | None, _FROM] = None,
    export: Annotated[Path | None, _EXPORT] = None,
    split: Annotated[str, typer.Option("--split", help="Judgements of BEIR folders: qrels/SPLIT.tsv.")] = "test",
    collection: Annotated[str, _COLLECTION] = "",
    questions: Annotated[int | None, _QUESTIONS] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed for the choice of --questions.")] = 1,
    mode: Annotated[list[Mode] | None, _MODE] = None,
    search: Annotated[bool, typer.Option("--search/--no-search", help="Measure retrieval.")] = True,
    by: Annotated[Literal["document", "chunk"], _BY] = "document",
    top_k: Annotated[int, typer.Option("--top-k", min=1, max=200, help="Results requested per query.")] = 100,
    answers: Annotated[bool, typer.Option("--answers", help="Also ask the chat and evaluate its answers.")] = False,
    profile: Annotated[list[str] | None, _PROFILE] = None,
    model: Annotated[str, typer.Option("--model", help="The chat model; default: the profile's.")] = "",
    leave_out: Annotated[Literal["gold"] | None, _LEAVE_OUT] = None,
    off_topic: Annotated[
        bool,
        typer.Option("--off-topic", help="Also ask each set's questions in the others' libraries."),
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Derive thresholds and store them with the live embedding space.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --calibrate: print the thresholds without storing them.")
    ] = False,
    keep: Annotated[float, _KEEP] = 0.99,
    save: Annotated[Path | None, typer.Option("--save", dir_okay=False, help="Store the run as JSON.")] = None,
    compare: Annotated[
        Path | None, typer.Option("--compare", dir_okay=False, help="A stored run to compare with.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", dir_okay=False, help="Draw score distributions: .svg or .html.")
    ] = None,
    fail_under: Annotated[
        list[str] | None, typer.Option("--fail-under", help=_GATE.format("under", "nDCG@10=0.6"))
    ] = None,
    fail_over: Annotated[
        list[str] | None, typer.Option("--fail-over", help=_GATE.format("over", "false_not_found=0.1"))
    ] = None,
    rerank_seconds: Annotated[list[float] | None, _RERANK_SECONDS] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=64, help="Requests in flight.")] = 8,
    url: UrlOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Measure retrieval, answers, citations and not-found decisions on data sets over the HTTP API.

    On the first run, the documents of each set are ingested into their own collection.
    """
    if plot is not None and plot.suffix.lower() not in (".svg", ".html", ".htm"):
        raise CliError("--plot writes .svg or .html", str(plot), ExitCode.USAGE)
    paths = paths or []
    if not paths and source is None:
        raise CliError("There is nothing to measure", "Name a data set, or --from feedback.", ExitCode.USAGE)
    if export is not None and source is None:
        raise CliError("--export requires --from feedback", "", ExitCode.USAGE)
    if off_topic and len(paths) < 2:
        raise CliError(
            "--off-topic requires at least two data sets",
            "It asks the questions of each set in the libraries of the other sets.",
            ExitCode.USAGE,
        )
    with_answers = answers or leave_out is not None or bool(profile)
    modes = tuple(dict.fromkeys(mode or DEFAULT_MODES)) if search else ()
    if calibrate:  # thresholds are derived from similarities
        modes = tuple(dict.fromkeys((Mode.DENSE, *(mode or ()))))
    try:
        gates = [Gate.parse(text, under=True) for text in fail_under or ()]
        gates += [Gate.parse(text, under=False) for text in fail_over or ()]
    except ValueError as error:
        raise CliError("A bound cannot be read", str(error), ExitCode.USAGE) from None
    options = EvalOptions(
        split=split,
        from_feedback=source is not None,
        export=export,
        collection=collection,
        questions=questions,
        seed=seed,
        modes=tuple(parsed for name in modes for parsed in _search_modes(name, rerank_seconds or ())),
        by_chunk=by == "chunk",
        top_k=top_k,
        profiles=tuple(dict.fromkeys(profile or (DEFAULT_PROFILE,))) if with_answers or calibrate else (),
        model=model,
        leave_out=leave_out is not None or calibrate,
        scored_only=calibrate and not with_answers,
        off_topic=off_topic,
        calibrate=calibrate,
        dry_run=dry_run,
        keep=keep,
        concurrency=concurrency,
        save=save,
        compare=compare,
        plot=plot,
        gates=tuple(gates),
        as_json=json,
    )
    return await evaluate(paths, load_client_settings(url=url), options)


def _search_modes(name: str, rerank_seconds: Sequence[float]) -> Iterable[SearchMode]:
    mode = SearchMode.parse(name)
    if not mode.rerank or not rerank_seconds:
        return (mode,)
    return (replace(mode, rerank_seconds=seconds) for seconds in rerank_seconds)
