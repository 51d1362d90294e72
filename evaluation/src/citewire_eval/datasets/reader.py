"""Detects the form of a folder or file, reads it, and names the set."""

from collections.abc import Sequence
from pathlib import Path

from citewire_eval.datasets.beir import is_beir, read_beir
from citewire_eval.datasets.clapnq import read_clapnq
from citewire_eval.datasets.model import Dataset, DatasetError
from citewire_eval.datasets.squad import read_squad

_FORMS = (
    "expected is BEIR (corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv), SQuAD (*.json with data, paragraphs, qas) or "
    "questions with passages (*.jsonl with input, passages, output); each file may be gzipped"
)


def read_datasets(paths: Sequence[Path], split: str) -> list[Dataset]:
    """Reads several sets; where two folders have one name, the folders above them tell them apart.

    Raises:
        DatasetError: See `read_dataset`; also where one set is given twice.
    """
    resolved = [path.resolve() for path in paths]
    if len(set(resolved)) < len(resolved):
        raise DatasetError("the same data set is given twice")
    return [read_dataset(path, split, name) for path, name in zip(paths, _names(resolved), strict=True)]


def read_dataset(path: Path, split: str, name: str | None = None) -> Dataset:
    """Reads a folder or file of any form.

    Args:
        path: The folder or file.
        split: Which judgements, for BEIR: `qrels/SPLIT.tsv`.
        name: What to call it; its own name by default.

    Raises:
        DatasetError: Its form is unknown, or one of its files is wrong.
    """
    name = name or _stem(path.resolve())
    if path.is_file():
        files = [path]
    elif path.is_dir():
        if is_beir(path):
            return read_beir(path, split, name)
        files = sorted(file for file in path.iterdir() if file.is_file())
    else:
        raise DatasetError(f"{path}: there is no such folder or file")
    whole = [file for file in files if _kind(file) == "json"]
    lines = [file for file in files if _kind(file) == "jsonl"]
    if whole and lines:
        raise DatasetError(f"{path}: holds both *.json and *.jsonl; name the file that is meant. {_FORMS}")
    if whole:
        return read_squad(whole, name)
    if lines:
        return read_clapnq(lines, name)
    raise DatasetError(f"{path}: holds no data set; {_FORMS}")


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
