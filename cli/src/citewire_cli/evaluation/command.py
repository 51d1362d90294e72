"""What `citewire eval` does, apart from its options."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.evaluation.answering import Asking, ask_all
from citewire_cli.evaluation.calibration import calibrate
from citewire_cli.evaluation.comparing import compare_runs
from citewire_cli.evaluation.datasets import Dataset, DatasetError, read_datasets, sampled
from citewire_cli.evaluation.filling import Filled, fill, find_existing
from citewire_cli.evaluation.gates import Gate
from citewire_cli.evaluation.gateway import FAILURES_TOLD, EvaluationError, Gateway
from citewire_cli.evaluation.plot import write_plot
from citewire_cli.evaluation.progress import Shown, shown_progress
from citewire_cli.evaluation.report import print_calibration, print_differences, print_run
from citewire_cli.evaluation.results import Row, Run, answers_row, read_run, search_row, write_run
from citewire_cli.evaluation.searching import SearchMode, search_all
from citewire_cli.evaluation.spaces import Space, live_space, store_calibration
from citewire_cli.evaluation.weighing import Weighed, weigh
from citewire_cli.evaluation.written import check_writable
from citewire_cli.jsonio import JsonObject
from citewire_cli.settings import ClientSettings

READ_SECONDS = 300.0
"""Longest wait for one answer: `stream: false` says nothing until it is complete."""


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """Options of one run.

    Attributes:
        split: Which judgements of BEIR folders: `qrels/SPLIT.tsv`.
        collection: Holds the documents of sets without a corpus.
        questions: How many questions of each set; None is all.
        seed: Which of them.
        modes: How to search, a row each; empty searches not at all.
        by_chunk: Judge chunks instead of documents, where the set judges parts of documents.
        top_k: Results asked for per query, 1–200; below 100 it bounds recall@100.
        profiles: Who answers, a row each; empty asks nobody.
        model: The chat model; "" for the profile's.
        leave_out: Whether answerable questions are asked again without their gold documents.
        scored_only: Ask only for the scores of answers; a model that gives none isn't asked further.
        calibrate: Whether thresholds are derived.
        dry_run: Derive, and don't store.
        keep: Share of gold chunks that the relevance threshold has to keep.
        concurrency: Requests in flight.
        save: Where the run is stored.
        compare: A stored run to compare with.
        plot: Where distributions are drawn.
        gates: Bounds that have to be kept.
        as_json: Print JSON instead of tables.
    """

    split: str = "test"
    collection: str = ""
    questions: int | None = None
    seed: int = 1
    modes: tuple[SearchMode, ...] = (SearchMode("dense"),)
    by_chunk: bool = False
    top_k: int = 100
    profiles: tuple[str, ...] = ()
    model: str = ""
    leave_out: bool = False
    scored_only: bool = False
    calibrate: bool = False
    dry_run: bool = False
    keep: float = 0.99
    concurrency: int = 8
    save: Path | None = None
    compare: Path | None = None
    plot: Path | None = None
    gates: tuple[Gate, ...] = ()
    as_json: bool = False


@dataclass(slots=True)
class _Measured:
    """What has been measured so far."""

    rows: list[Row] = field(default_factory=list[Row])
    weighed: list[Weighed] = field(default_factory=list[Weighed])
    datasets: list[JsonObject] = field(default_factory=list[JsonObject])


async def run_command(paths: Sequence[Path], settings: ClientSettings, options: EvalOptions) -> ExitCode:
    """Measures the data sets, shows and stores what was found.

    Returns:
        OK, or FAILED if a question couldn't be asked or a bound is broken.

    Raises:
        CliError: Wrong files or options, a gateway that refuses or is gone.
    """
    if importlib.util.find_spec("ir_measures") is None:
        raise CliError("The extra `eval` is missing", "pip install 'citewire-cli[eval]'", ExitCode.USAGE)
    try:
        before = None if options.compare is None else read_run(options.compare)
        datasets = [sampled(one, options.questions, options.seed) for one in read_datasets(paths, options.split)]
        _check_collection(datasets, options.collection)
        for path in (options.save, options.plot):
            if path is not None:
                check_writable(path)
    except OSError as error:
        raise CliError("A file cannot be written", f"{error.filename}: {error.strerror}", ExitCode.USAGE) from None
    except (DatasetError, ValueError) as error:
        raise CliError("The evaluation cannot start", str(error), ExitCode.USAGE) from None
    async with Api(settings, read_seconds=READ_SECONDS) as api:
        gateway = Gateway(api, concurrency=options.concurrency)
        space = await live_space(gateway)
        try:
            measured = await _measure(gateway, datasets, options)
        except EvaluationError as error:
            raise CliError("The evaluation failed", str(error)) from None
        space = space or await live_space(gateway)  # the first document of a library makes its space
        run = Run(tuple(measured.rows), _about(settings, space, options, measured.datasets))
        stored = ""
        if options.calibrate:
            run = Run(run.rows, run.about, calibrate(run, measured.weighed, options.keep))
        _write(run, space, options)
        if options.calibrate:
            try:
                stored = await store_calibration(gateway, space, run.calibration or {}, dry_run=options.dry_run)
            except CliError:
                _show(run, before, "", options)  # what was measured isn't lost with it
                raise
    _show(run, before, stored, options)
    return _verdict(run, options)


def _check_collection(datasets: Sequence[Dataset], collection: str) -> None:
    for dataset in datasets:
        if not dataset.documents and not collection:
            raise DatasetError(f"{dataset.name} has no corpus.jsonl: --collection names where its documents are")
        if dataset.documents and collection:
            raise DatasetError(f"{dataset.name} has documents of its own; --collection is for sets without")


async def _measure(gateway: Gateway, datasets: Sequence[Dataset], options: EvalOptions) -> _Measured:
    measured = _Measured()
    with shown_progress() as bars:
        for dataset in datasets:
            bars.begin(dataset.name)
            filled = await _filled(gateway, dataset, options, bars)
            measured.datasets.append(_dataset_json(dataset, filled))
            await _search(gateway, dataset, filled, options, measured, bars)
            for profile in options.profiles:
                asking = Asking(profile, options.model, options.leave_out, options.scored_only)
                answers = await ask_all(gateway, dataset, filled, asking, bars.show)
                if len(answers.answers) > 1 or not options.scored_only:
                    measured.rows.append(answers_row(dataset, answers, len(filled.ids)))
    return measured


async def _filled(gateway: Gateway, dataset: Dataset, options: EvalOptions, bars: Shown) -> Filled:
    if dataset.documents:
        return await fill(gateway, dataset, bars.show)
    return await find_existing(gateway, dataset, options.collection)


async def _search(
    gateway: Gateway, dataset: Dataset, filled: Filled, options: EvalOptions, measured: _Measured, bars: Shown
) -> None:
    if not dataset.answerable:
        return
    if options.by_chunk and options.modes and not dataset.has_spans:
        raise EvaluationError(f"{dataset.name} judges whole documents only; leave out --by chunk")
    for mode in options.modes:
        run = await search_all(gateway, dataset, filled, mode, options.top_k, options.by_chunk, bars.show)
        measured.rows.append(search_row(dataset, run, options.by_chunk, len(filled.ids)))
    if options.calibrate:
        measured.weighed.append(await weigh(gateway, dataset, filled, bars.show))


def _write(run: Run, space: Space | None, options: EvalOptions) -> None:
    try:
        if options.save is not None:
            write_run(run, options.save)
        if options.plot is not None:
            write_plot(run, {} if space is None else space.calibration, options.plot)
    except OSError as error:
        raise CliError("A file cannot be written", f"{error.filename}: {error.strerror}") from None


def _show(run: Run, before: Run | None, stored: str, options: EvalOptions) -> None:
    differences = None if before is None else compare_runs(run, before)
    if options.as_json:
        compared = {} if differences is None else {"comparison": [one.as_json() for one in differences]}
        output.print_json(run.as_json() | compared)
    else:
        print_run(run)
        if run.calibration is not None:
            print_calibration(run.calibration, stored)
        if differences is not None:
            print_differences(differences, str(options.compare))


def _verdict(run: Run, options: EvalOptions) -> ExitCode:
    errors = output.stderr()
    code = ExitCode.OK
    for row in run.rows:
        if row.failures:
            code = ExitCode.FAILED
            errors.print(f"{row.dataset} {row.label}: {len(row.failures)} of {row.questions} questions failed:")
            for failure in row.failures[:FAILURES_TOLD]:
                errors.print(f"  {output.one_line(f'{failure.question_id}: {failure.error}', 200)}")
    for broken in (line for gate in options.gates for line in gate.broken(run.rows)):
        code = ExitCode.FAILED
        errors.print(broken)
    return code


def _about(settings: ClientSettings, space: Space | None, options: EvalOptions, sets: list[JsonObject]) -> JsonObject:
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "citewire": version("citewire-cli"),
        "url": settings.url,
        "space": None if space is None else space.named,
        "options": {
            "split": options.split,
            "questions": options.questions,
            "seed": options.seed,
            "top_k": options.top_k,
            "model": options.model,
            "leave_out": options.leave_out,
            "by_chunk": options.by_chunk,
        },
        "datasets": sets,
    }


def _dataset_json(dataset: Dataset, filled: Filled) -> JsonObject:
    return {
        "name": dataset.name,
        "form": dataset.form,
        "fingerprint": dataset.fingerprint,
        "collection": filled.collection,
        "documents": len(filled.ids),
        "answerable": len(dataset.answerable),
        "unanswerable": len(dataset.unanswerable),
    }
