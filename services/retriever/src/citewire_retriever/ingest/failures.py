"""Rules for failed attempts: whether an error may be temporary, how long to wait, and the final error."""

from typing import Final

from citewire_kit.errors import CitewireError, Code
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.model import Job
from citewire_retriever.ingest.settings import WorkerSettings

# A provider's errors until somebody changes its key, address or model: four minutes are enough to be sure.
_REFUSED: Final = frozenset({"PROVIDER_AUTH", "PROVIDER_REJECTED", "PROVIDER_SEAL", "PROVIDER_ADDRESS"})
# Errors that may be temporary, however long they last. All others are retried only a few times.
_PASSING: Final = frozenset(
    {
        Code.UNAVAILABLE,
        Code.RESOURCE_EXHAUSTED,
        Code.DEADLINE_EXCEEDED,
        Code.ABORTED,
        Code.CANCELLED,
        Code.NOT_FOUND,  # the embedder doesn't serve the model, which must be configured
        Code.FAILED_PRECONDITION,  # nor its revision
        Code.UNAUTHENTICATED,
    }
)
GIVEN_UP: Final = "The document couldn't be processed after several attempts. Try again later, or report it."


def is_passing(error: Exception) -> bool:
    """Whether an error may be temporary."""
    return isinstance(error, CitewireError) and error.code in _PASSING and error.reason not in _REFUSED


def final_error(error: Exception) -> IngestError:
    """The error for a version whose attempts all failed: whose fault it is, and what a tenant can do."""
    if isinstance(error, CitewireError) and error.reason.startswith("PROVIDER_"):
        return IngestError(IngestCode.PROVIDER, f"{error.message[:1].upper()}{error.message[1:]}.")
    return IngestError(IngestCode.INTERNAL, GIVEN_UP)


def delay_seconds(job: Job, error: Exception, settings: WorkerSettings) -> float:
    """How long a job waits before its next attempt."""
    doublings = min(job.attempt - 1, 30)
    delay = min(settings.retry_seconds_max, settings.retry_seconds * 2**doublings)
    if isinstance(error, CitewireError) and error.retry_after is not None:
        delay = max(delay, error.retry_after)
    # Spread by id, so that jobs that failed together aren't retried together.
    return delay * (1 + (job.job_id % 16) / 64)
