"""One source and its collection: compares them, and applies the differences."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field

from citewire_cli.api import Api
from citewire_cli.errors import CliError, ExitCode
from citewire_cli.ingest import Target, send_all
from citewire_cli.jsonio import JsonObject, get_str
from citewire_cli.outcomes import Observer, Outcome
from citewire_cli.sync.folder import Folder, Listing
from citewire_cli.sync.library import SyncedDocuments
from citewire_cli.sync.plan import Plan

FEW = 10
"""So many documents are deleted without asking whether that is meant, however few there are."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed step and its reason."""

    action: str
    path: str
    error: CliError

    def as_json(self) -> JsonObject:
        """The form for `--json`."""
        return {"action": self.action, "path": self.path, **self.error.as_json()}


@dataclass(slots=True)
class SyncReport:
    """The completed steps."""

    moved: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Where each was, and where it is."""
    redescribed: list[str] = field(default_factory=list[str])
    deleted: list[str] = field(default_factory=list[str])
    failures: list[Failure] = field(default_factory=list[Failure])


class Sync:
    """See the module."""

    def __init__(
        self, api: Api, folder: Folder, documents: SyncedDocuments, target: Target, *, allow_deletions: bool
    ) -> None:
        """Takes what it works on.

        Args:
            api: the gateway.
            folder: the source.
            documents: what came from it.
            target: how new documents are filed.
            allow_deletions: whether most of the documents may be deleted.
        """
        self.api = api
        self.folder = folder
        self._documents = documents
        self._target = target
        self._allow_deletions = allow_deletions

    async def plan(self) -> tuple[Plan, Listing]:
        """Compares the folder with the library as both are now.

        Raises:
            CliError: one of them can't be read.
        """
        reading = asyncio.create_task(asyncio.to_thread(self.folder.read))
        try:
            listing = await asyncio.shield(reading)
        except asyncio.CancelledError:
            self.folder.stop()  # a thread can't be cancelled, and it may be fetching for hours
            await asyncio.gather(reading, return_exceptions=True)
            raise
        await self._documents.read()
        return self._documents.compare(listing.files, listing.is_unseen), listing

    def check(self, plan: Plan) -> None:
        """Refuses a plan that deletes most of what there is: the folder may only be away, or its share not mounted.

        Raises:
            CliError: it does (usage).
        """
        count, known = len(plan.vanished), len(self._documents)
        empty = count == known > 1 and not plan.new
        if not self._allow_deletions and (empty or (count > FEW and 2 * count > known)):
            raise CliError(
                f"{count} of {known} documents would be deleted",
                f"Their files aren't in {self.folder.root} any more. Is it mounted, and the right source? If this is "
                "meant, pass --allow-deletions.",
                ExitCode.USAGE,
            )

    @staticmethod
    def uploads(plan: Plan) -> list[Outcome]:
        """The files to upload or retry."""
        return [Outcome(file.source) for file in (*plan.new, *plan.changed, *plan.failed)]

    async def apply(
        self, plan: Plan, uploads: list[Outcome], observer: Observer, *, patience: float | None
    ) -> SyncReport:
        """Does what a plan says: moves and deletions first, as who may not see a document any more shouldn't.

        Args:
            plan: the last one that was made.
            uploads: its uploads, whose outcomes are written there.
            observer: told of each.
            patience: as of `send_all`.

        Raises:
            CliError: the gateway cannot be reached or doesn't let us in; what a single file met is in the report.
        """
        report = SyncReport()
        for file, document in plan.moved:
            name = file.source.name
            if await _attempt(report, "move", name, self._documents.change(file, document)):
                report.moved.append((get_str(document, "file_name"), name))
        for file, document in plan.redescribed:
            name = file.source.name
            if await _attempt(report, "describe", name, self._documents.change(file, document)):
                report.redescribed.append(name)
        for document in plan.vanished:
            name = get_str(document, "file_name")
            if await _attempt(report, "delete", name, self._documents.delete(document)):
                report.deleted.append(name)
        await send_all(self.api, uploads, self._target, self._documents, observer, patience=patience)
        report.failures += [failure for outcome in uploads if (failure := failure_of(outcome, patience))]
        return report


def failure_of(outcome: Outcome, patience: float | None) -> Failure | None:
    """The reason why an upload failed; None if it didn't, or if nothing waited for it."""
    if outcome.error is not None:
        return Failure("upload", outcome.source.name, outcome.error)
    if patience is None or outcome.status == "ready":
        return None
    return Failure("upload", outcome.source.name, CliError("It isn't ready yet", f"It is {outcome.status}."))


async def _attempt(report: SyncReport, action: str, path: str, work: Awaitable[None]) -> bool:
    try:
        await work
    except CliError as error:
        if error.code is ExitCode.UNREACHABLE or error.status == 401:
            raise
        report.failures.append(Failure(action, path, error))
        return False
    return True
