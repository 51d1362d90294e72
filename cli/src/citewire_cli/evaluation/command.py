"""What `citewire eval` does, apart from its options."""

import asyncio
import dataclasses
import importlib.util
import json
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from citewire_cli.evaluation.beir import BeirDataset, DatasetError
from citewire_cli.evaluation.run import EvaluationError, EvaluationResult, Mode, evaluate
from citewire_cli.output import print_table

Tasks = dict[str, TaskID]
_STEPS = ("upload", "ingest", "search")


@dataclasses.dataclass(frozen=True, slots=True)
class EvalOptions:
    """Options of one run.

    Attributes:
        url: The gateway's address.
        headers: Headers of every request (the API key).
        split: Which judgements: `qrels/SPLIT.tsv`.
        modes: How to search, one table row each.
        top_k: Documents asked for per query, 1-200; below 100 it bounds recall@100.
        concurrency: Requests in flight.
        as_json: Print JSON instead of a table.
    """

    url: str
    headers: dict[str, str]
    split: str = "test"
    modes: tuple[Mode, ...] = ("dense",)
    top_k: int = 100
    concurrency: int = 8
    as_json: bool = False


def run_command(folders: list[Path], options: EvalOptions) -> int:
    """Evaluates the folders and prints the measures. Returns the exit code: 0, 1 failed, 2 usage, 3 no gateway."""
    errors = Console(stderr=True)
    if importlib.util.find_spec("ir_measures") is None:
        errors.print("eval: this needs the package's extra `eval`: pip install 'citewire-cli[eval]'", markup=False)
        return 2
    try:
        datasets = [BeirDataset.read(folder, options.split) for folder in folders]
        results = asyncio.run(_evaluate_all(datasets, options, errors))
    except DatasetError as error:
        errors.print(f"eval: {error}", markup=False)
        return 2
    except EvaluationError as error:
        errors.print(f"eval: {error}", markup=False)
        return 1
    except httpx.HTTPStatusError as error:
        errors.print(f"eval: {_refusal(error)}", markup=False)
        return 1
    except httpx.TransportError as error:
        errors.print(f"eval: the gateway at {options.url} doesn't answer ({type(error).__name__})", markup=False)
        return 3
    if options.as_json:
        print(json.dumps([dataclasses.asdict(result) for result in results]))
    else:
        _print_results(results)
    return 0


async def _evaluate_all(datasets: list[BeirDataset], options: EvalOptions, errors: Console) -> list[EvaluationResult]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    results: list[EvaluationResult] = []
    async with httpx.AsyncClient(base_url=options.url, headers=options.headers, timeout=60) as client:
        for dataset in datasets:
            with Progress(*columns, console=errors, transient=True) as bars:
                tasks = {step: bars.add_task(f"{dataset.name}: {step}", total=None) for step in _STEPS}

                def show(step: str, done: int, total: int, bars: Progress = bars, tasks: Tasks = tasks) -> None:
                    bars.update(tasks[step], completed=done, total=total)

                results += await evaluate(
                    client,
                    dataset,
                    modes=options.modes,
                    top_k=options.top_k,
                    concurrency=options.concurrency,
                    progress=show,
                )
    return results


def _print_results(results: list[EvaluationResult]) -> None:
    measures = list(results[0].measures) if results else []
    print_table(
        ["data set", "mode", "documents", "queries", *measures, "p50 ms", "p95 ms"],
        (
            [
                result.dataset,
                result.mode,
                str(result.documents),
                str(result.queries),
                *(f"{result.measures[name]:.4f}" for name in measures),
                *(f"{result.latency_ms[name]:.1f}" for name in ("p50", "p95")),
            ]
            for result in results
        ),
    )


def _refusal(error: httpx.HTTPStatusError) -> str:
    try:
        problem = error.response.json()
        return f"{problem['title']}: {problem['detail']}"
    except (ValueError, KeyError, TypeError):
        return f"the gateway answered {error.response.status_code} to {error.request.url.path}"
