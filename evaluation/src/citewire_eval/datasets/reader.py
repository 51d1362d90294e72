"""Detects the form of a folder or file, reads it, and names the set."""

from collections.abc import Sequence
from pathlib import Path

from citewire_eval.datasets.beir import is_beir, read_beir
from citewire_eval.datasets.clapnq import read_clapnq
from citewire_eval.datasets.model import Dataset, DatasetError
from citewire_eval.datasets.squad import read_squad

_FORMS = (
    "expected BEIR (corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv), SQuAD (*.json with data, paragraphs, qas) or "
    "questions with passages (*.jsonl with input, passages, output); each file may be gzipped"
)


def read_datasets(paths: Sequence[Path], split: str) -> list[Dataset]:
    """Reads several sets. If two folders have the same name, their parent folders distinguish them.

    Raises:
        DatasetError: See `read_dataset`; also if a set is given twice.
    """
    resolved = [path.resolve() for path in paths]
    if len(set(resolved)) < len(resolved):
        raise DatasetError("the same data set is given twice")
    return [read_dataset(path, split, name) for path, name in zip(paths, _names(resolved), strict=True)]


def read_dataset(path: Path, split: str, name: str | None = None) -> Dataset:
    """Reads a folder or file of any form.

    Args:
        path: The folder or file.
        split: For BEIR, the judgements to use: `qrels/SPLIT.tsv`.
        name: Name of the set; by default the name of the folder or file.

    Raises:
        DatasetError: The form is unknown, or a file is malformed.
    """
    name = name or _stem(path.resolve())
    if path.is_file():
        files = [path]
    elif path.is_dir():
        if is_beir(path):
            return read_beir(path, split, name)
        files = sorted(file for file in path.iterdir() if file.is_file())
    else:
        raise DatasetError(f"{path}: no such folder or file")
    whole = [file for file in files if _kind(file) == "json"]
    lines = [file for file in files if _kind(file) == "jsonl"]
    if whole and lines:
        raise DatasetError(f"{path}: contains both *.json and *.jsonl; name one of the files. {_FORMS}")
    if whole:
        return read_squad(whole, name)
    if lines:
        return read_clapnq(lines, name)
    raise DatasetError(f"{path}: contains no data set; {_FORMS}")


def _kind(path: Path) -> str:
    return path.name.removesuffix(".gz").rpartition(".")[2].lower()


def _stem(path: Path) -> str:
    return path.name if path.is_dir() else path.name.removesuffix(".gz").rpartition(".")[0] or path.name


def _names(paths: Sequence[Path]) -> list[str]:
    names = [_stem(path) for path in paths]
    for depth in range(1, max((len(path.parts) for path in paths), default=1)):
        if len(set(names)) == len(names):
            break
        doubled = {name for name in names if names.count(name) > 1}
        names = [
            "/".join((*path.parent.parts[-depth:], _stem(path))) if name in doubled else name
            for path, name in zip(paths, names, strict=True)
        ]
    return names
