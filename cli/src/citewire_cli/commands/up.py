"""`citewire up`: the whole stack on this machine."""

import asyncio
import logging
import os
from typing import Annotated

import typer

from citewire_cli.commands.options import JsonOption
from citewire_cli.errors import CliError, ExitCode


def up_command(
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="The gateway's port; 0 picks a free one. [CITEWIRE_GATEWAY_PORT]"
        ),
    ] = None,
    sample: Annotated[
        bool | None,
        typer.Option(
            "--sample/--no-sample", help="Load the sample documents if the library is empty. [CITEWIRE_SAMPLE_LIBRARY]"
        ),
    ] = None,
    grace: Annotated[
        float, typer.Option("--grace", min=0, help="Seconds that running answers get at shutdown.")
    ] = 15.0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show debug lines as well.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show only warnings and errors of the processes.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Start the whole stack on this machine, and run until Ctrl-C.

    Embedded Postgres, embedder, retriever, ingest worker, generator and gateway, all on the loopback address without
    authentication. Data is kept in CITEWIRE_DATA_DIR (.citewire), full logs in its logs/ folder. A process that dies is
    started again. Ports are set by CITEWIRE_<PROCESS>_PORT and CITEWIRE_<PROCESS>_METRICS_PORT. Exits with 1 if the
    stack cannot start.
    """
    # Only `up` needs these: they bind the command to POSIX, and a client's start shouldn't wait for them.
    from citewire_cli.stack.reporter import Reporter
    from citewire_cli.stack.supervisor import StartError
    from citewire_cli.stack.up import UpOptions, up

    environ = dict(os.environ)
    if verbose:
        environ["CITEWIRE_LOG_LEVEL"] = "DEBUG"
    load_sample = environ.get("CITEWIRE_SAMPLE_LIBRARY", "on").strip().lower() not in {"off", "0", "no", "false"}
    least = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    reporter = Reporter(as_json=json, least_level=least)
    options = UpOptions(port, load_sample if sample is None else sample, grace, environ)
    try:
        code = asyncio.run(up(options, reporter))
    except StartError as error:
        reporter.failure(error, error.tail)
        code = error.code
    except CliError as error:
        reporter.failure(error)
        code = error.code
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED  # before the stack's own handler was there: nothing had been started
    raise typer.Exit(int(code))
