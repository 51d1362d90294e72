"""Plans the changes that bring a library in step with a folder: a pure comparison of both."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from citewire_cli.files import Source
from citewire_cli.jsonio import JsonObject, get_int, get_str, get_texts


@dataclass(frozen=True, slots=True)
class SyncFile:
    """The current state of a file in the folder.

    `readers` are the subjects who alone may read it; empty for everyone who may read the collection.
    """

    source: Source
    sha256: str
    url: str = ""
    readers: tuple[str, ...] = ()


@dataclass(slots=True)
class Plan:
    """The differences. A file is in at most one of the lists."""

    new: list[SyncFile] = field(default_factory=list[SyncFile])
    changed: list[SyncFile] = field(default_factory=list[SyncFile])
    """Their bytes differ from their document's."""
    failed: list[SyncFile] = field(default_factory=list[SyncFile])
    """Nothing differs, but the document couldn't be read: it is tried again."""
    moved: list[tuple[SyncFile, JsonObject]] = field(default_factory=list[tuple[SyncFile, JsonObject]])
    """Files whose bytes are those of a document whose own file is gone."""
    redescribed: list[tuple[SyncFile, JsonObject]] = field(default_factory=list[tuple[SyncFile, JsonObject]])
    """Files whose address or readers differ from their document's; they may be in `changed` too."""
    vanished: list[JsonObject] = field(default_factory=list[JsonObject])
    """Documents whose file is gone, or that another one replaces."""
    unchanged: int = 0


def compare(files: Mapping[str, SyncFile], documents: Iterable[JsonObject], unseen: Callable[[str], bool]) -> Plan:
    """Compares a folder with the documents that came from it.

    Args:
        files: the folder's files by their path in it.
        documents: the documents, the newest first.
        unseen: whether a path lies where nobody can look now; such documents stay.
    """
    plan = Plan()
    by_path: dict[str, JsonObject] = {}
    for document in documents:
        path = get_str(document, "file_name")
        if path in by_path:
            plan.vanished.append(document)  # the older of two that the same file made
        else:
            by_path[path] = document
    gone = {path: document for path, document in by_path.items() if path not in files and not unseen(path)}
    by_content: dict[tuple[str, str], list[str]] = {}
    for path, document in gone.items():
        by_content.setdefault(_content(path, get_str(document, "sha256")), []).append(path)
    for path, file in files.items():
        document = by_path.get(path)
        if document is None:
            earlier = by_content.get(_content(path, file.sha256))
            if earlier:
                plan.moved.append((file, gone.pop(earlier.pop(0))))
            else:
                plan.new.append(file)
        else:
            _compare(plan, file, document)
    plan.vanished.extend(gone.values())
    return plan


def document_id(document: JsonObject) -> int:
    """A document's id."""
    return get_int(document, "id") or 0


def _compare(plan: Plan, file: SyncFile, document: JsonObject) -> None:
    if (get_str(document, "url"), tuple(get_texts(document, "readers"))) != (file.url, file.readers):
        plan.redescribed.append((file, document))
    if get_str(document, "sha256") != file.sha256:
        plan.changed.append(file)
    elif get_str(document, "status") == "failed":
        plan.failed.append(file)
    else:
        plan.unchanged += 1


def _content(path: str, sha256: str) -> tuple[str, str]:
    """A document may follow its bytes to another name as long as the name's ending says the same of them."""
    return PurePosixPath(path).suffix.lower(), sha256
