"""One run of `citewire eval`: reads the data sets, measures, stores, prints, and decides the exit code."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from citewire_cli import output
from citewire_cli.api import Api
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_objects
from citewire_cli.settings import ClientSettings
from citewire_eval.answers import AnswerOptions, run_chats
from citewire_eval.calibration import Space, WeightCurve, calibrate, live_space, measure_weights, store_calibration
from citewire_eval.client import EvaluationError, RetryingClient
from citewire_eval.collection import Collection, find_collection, load_corpus
from citewire_eval.comparison import compare_runs
from citewire_eval.datasets.model import Dataset, DatasetError, sample
from citewire_eval.datasets.reader import read_datasets
from citewire_eval.feedback import FORM, RatedAnswers, read_feedback, write_set
from citewire_eval.gates import Gate
from citewire_eval.off_topic import ask_elsewhere
from citewire_eval.plot import write_plot
from citewire_eval.progress import StepProgress, show_progress
from citewire_eval.report import print_calibration, print_cases, print_differences, print_run
from citewire_eval.results import Row, Run, answers_row, check_writable, read_run, search_row, write_run
from citewire_eval.search import SearchMode, run_searches

READ_SECONDS = 300.0
"""Longest wait for an answer: `stream: false` sends nothing until it is complete."""
_FAILURES_PRINTED = 3


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """Options of a run; `command` explains those of the command line."""

    split: str
    from_feedback: bool
    """Whether to use the answers that users rated as a further data set."""
    export: Path | None
    """Folder to write that set to, in BEIR form."""
    collection: str
    questions: int | None
    seed: int
    modes: tuple[SearchMode, ...]
    """The search modes, one row each; if empty, nothing is searched."""
    by_chunk: bool
    """Whether to judge chunks instead of documents, if the set judges parts of documents."""
    top_k: int
    profiles: tuple[str, ...]
    """The profiles that answer, one row each; if empty, nothing is asked."""
    model: str
    leave_out: bool
    """Whether to ask answerable questions again without their gold documents."""
    scored_only: bool
    """Whether only the scores of answers are needed; then a model that gives none is asked only once."""
    off_topic: bool
    """Whether to ask each set's questions in the libraries of the other sets too."""
    calibrate: bool
    dry_run: bool
    keep: float
    concurrency: int
    save: Path | None
    compare: Path | None
    plot: Path | None
    gates: tuple[Gate, ...]
    as_json: bool


@dataclass(slots=True)
class _Measurements:
    """The measurements so far."""

    rows: list[Row] = field(default_factory=list[Row])
    curves: list[WeightCurve] = field(default_factory=list[WeightCurve])
    datasets: list[JsonObject] = field(default_factory=list[JsonObject])


async def evaluate(paths: Sequence[Path], settings: ClientSettings, options: EvalOptions) -> ExitCode:
    """Measures the data sets, and prints and stores the results.

    Returns:
        OK, or FAILED if a question's call failed or a bound is violated.

    Raises:
        CliError: Files or options are wrong, or the gateway rejects a request or is unreachable.
    """
    try:
        baseline = None if options.compare is None else read_run(options.compare)
        datasets = [sample(dataset, options.questions, options.seed) for dataset in read_datasets(paths, options.split)]
        _check_collection(datasets, options.collection)
        if options.export is not None:
            options.export.mkdir(parents=True, exist_ok=True)
        for path in filter(None, (options.save, options.plot)):
            check_writable(path)
    except OSError as error:
        raise CliError("A file cannot be written", f"{error.filename}: {error.strerror}", ExitCode.USAGE) from None
    except (DatasetError, ValueError) as error:
        raise CliError("The evaluation cannot start", str(error), ExitCode.USAGE) from None
    async with Api(settings, read_seconds=READ_SECONDS) as api:
        client = RetryingClient(api, concurrency=options.concurrency)
        rated = await read_feedback(client) if options.from_feedback else None
        if rated is not None:
            datasets += _use_feedback(rated, options)
        space = await live_space(client)
        try:
            measurements = await _measure(client, datasets, options)
        except EvaluationError as error:
            raise CliError("The evaluation failed", str(error)) from None
        space = space or await live_space(client)  # the first document of a library creates its space
        about = _about(settings, space, options, measurements.datasets)
        if rated is not None:
            about["cases"] = [asdict(case) for case in rated.cases]
        run = Run(tuple(measurements.rows), about)
        calibration = calibrate(run, measurements.curves, options.keep) if options.calibrate else None
        run = Run(run.rows, run.about, calibration)
        _write(run, space, options)
        stored = ""
        if calibration is not None:
            try:
                stored = await store_calibration(client, space, calibration, dry_run=options.dry_run)
            except CliError:
                _print(run, baseline, "", options)  # store the measurements even if this fails
                raise
    _print(run, baseline, stored, options)
    return _exit_code(run, options.gates)


def _use_feedback(rated: RatedAnswers, options: EvalOptions) -> list[Dataset]:
    """Exports the feedback set if asked to, reports the answers left out, and returns the set to measure."""
    if options.export is not None:
        write_set(options.export, rated)
    for why, count in sorted(rated.left_out.items()):
        output.stderr().print(f"{count} answers that were rated up are left out: {why}.")
    if rated.dataset is None and not rated.cases:
        raise CliError("There is no feedback to measure", "Nobody has rated an answer that you can see.")
    return [] if rated.dataset is None else [sample(rated.dataset, options.questions, options.seed)]


def _check_collection(datasets: Sequence[Dataset], collection: str) -> None:
    for dataset in datasets:
        if not dataset.documents and not collection:
            raise DatasetError(f"{dataset.name} has no corpus.jsonl: use --collection to name where its documents are")
        if dataset.documents and collection:
            raise DatasetError(f"{dataset.name} has its own documents; --collection is for sets without a corpus")


async def _measure(client: RetryingClient, datasets: Sequence[Dataset], options: EvalOptions) -> _Measurements:
    measurements = _Measurements()
    collections: list[Collection] = []
    with show_progress() as progress:
        for dataset in datasets:
            progress.dataset = dataset.name
            if dataset.documents:
                collection = await load_corpus(client, dataset, progress.show)
            else:
                name = "" if dataset.form == FORM else options.collection
                collection = await find_collection(client, dataset, name)
            collections.append(collection)
            size = len(collection.doc_ids)
            measurements.datasets.append(
                {
                    "name": dataset.name,
                    "form": dataset.form,
                    "fingerprint": dataset.fingerprint,
                    "collection": collection.name,
                    "documents": size,
                    "answerable": len(dataset.answerable),
                    "unanswerable": len(dataset.unanswerable),
                }
            )
            if dataset.answerable:
                await _search(client, dataset, collection, options, measurements, progress)
            for profile in options.profiles:
                how = AnswerOptions(profile, options.model, options.leave_out, options.scored_only)
                run = await run_chats(client, dataset, collection, how, progress.show)
                if len(run.answers) > 1 or not options.scored_only:
                    measurements.rows.append(answers_row(dataset, run, size))
        for library, collection in zip(datasets, collections, strict=True) if options.off_topic else ():
            progress.dataset = library.name
            for asked in datasets:
                if asked is not library:
                    row = await ask_elsewhere(client, asked, library, collection, progress.show)
                    measurements.rows.append(row)
    return measurements


async def _search(
    client: RetryingClient,
    dataset: Dataset,
    collection: Collection,
    options: EvalOptions,
    measurements: _Measurements,
    progress: StepProgress,
) -> None:
    by_chunk = options.by_chunk
    if by_chunk and options.modes and not any(question.spans for question in dataset.questions):
        raise EvaluationError(f"{dataset.name} judges only whole documents; leave out --by chunk")
    for mode in options.modes:
        run = await run_searches(client, dataset, collection, mode, options.top_k, by_chunk, progress.show)
        measurements.rows.append(search_row(dataset, run, by_chunk, len(collection.doc_ids)))
    if options.calibrate:
        measurements.curves.append(await measure_weights(client, dataset, collection, progress.show))


def _write(run: Run, space: Space | None, options: EvalOptions) -> None:
    try:
        if options.save is not None:
            write_run(run, options.save)
        if options.plot is not None:
            write_plot(run, {} if space is None else space.calibration, options.plot)
    except OSError as error:
        raise CliError("A file cannot be written", f"{error.filename}: {error.strerror}") from None


def _print(run: Run, baseline: Run | None, stored: str, options: EvalOptions) -> None:
    differences = None if baseline is None else compare_runs(run, baseline)
    if options.as_json:
        compared = {} if differences is None else {"comparison": [difference.as_json() for difference in differences]}
        output.print_json(run.as_json() | compared)
        return
    print_run(run)
    print_cases(get_objects(run.about, "cases"))
    if run.calibration is not None:
        print_calibration(run.calibration, stored)
    if differences is not None:
        print_differences(differences, str(options.compare))


def _exit_code(run: Run, gates: Sequence[Gate]) -> ExitCode:
    errors = output.stderr()
    code = ExitCode.OK
    for row in run.rows:
        if row.failures:
            code = ExitCode.FAILED
            errors.print(f"{row.dataset} {row.label}: {len(row.failures)} of {row.questions} questions failed:")
            for failure in row.failures[:_FAILURES_PRINTED]:
                errors.print(f"  {output.one_line(f'{failure.question_id}: {failure.error}', 200)}")
    for violation in (line for gate in gates for line in gate.violations(run.rows)):
        code = ExitCode.FAILED
        errors.print(violation)
    return code


def _about(settings: ClientSettings, space: Space | None, options: EvalOptions, sets: list[JsonObject]) -> JsonObject:
    stored_options = ("split", "questions", "seed", "top_k", "model", "leave_out", "by_chunk")
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "citewire": version("citewire-cli"),
        "url": settings.url,
        "space": None if space is None else space.name,
        "options": {name: getattr(options, name) for name in stored_options},
        "datasets": sets,
    }
