"""The process in which files are read: `python -m citewire_retriever.ingest.parse_process MEMORY_MIB`.

One JSON object a line comes in, one length-prefixed JSON object goes out, until the input ends. It holds no secret, no
connection, and nothing that a crash could harm. Only `sandbox` starts it.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, BinaryIO

from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.wire import PREFIX_BYTES, encode_document

_KILL_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_CPU_GRACE = 30


def main(memory_mib: int) -> None:
    """Reads files until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's: it ends us when it is done with us
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_KILL_WITH_PARENT, signal.SIGKILL)
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if sys.platform == "linux":  # elsewhere the kernel refuses the limit or doesn't heed it
        limit = memory_mib * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(5)
    for line in sys.stdin.buffer:
        _answer(answers, _read(json.loads(line)))


def _read(job: dict[str, Any]) -> dict[str, Any]:
    _allow_seconds(int(job["seconds"]))
    limits = ParseLimits(**job["limits"])
    try:
        return {"document": encode_document(parse(Path(job["path"]), job["file_name"], job["media_type"], limits))}
    except IngestError as error:
        return {"error": {"code": error.code.value, "message": error.message}}
    except MemoryError:
        message = "The file needs more memory to be read than is allowed: split it."
        return {"error": {"code": IngestCode.TOO_LARGE.value, "message": message}}
    except RecursionError:
        message = "The file is nested too deeply to be read."
        return {"error": {"code": IngestCode.CORRUPT.value, "message": message}}
    except Exception:  # noqa: BLE001 - the worker logs it
        return {"defect": traceback.format_exc(limit=-8)}


def _allow_seconds(seconds: int) -> None:
    """A second clock, should the worker that watches the first one be gone: it counts what this process computes."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + seconds + _CPU_GRACE
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def _answer(stream: BinaryIO, answer: dict[str, Any]) -> None:
    data = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")
    stream.write(len(data).to_bytes(PREFIX_BYTES, "big"))
    stream.write(data)
    stream.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
