"""`python -m citewire_generator`: the generator process."""

from contextlib import AsyncExitStack

import citewire_kit  # noqa: F401 # pyright: ignore[reportUnusedImport] # before gRPC is loaded: see there
from citewire_generator.app import start
from citewire_generator.settings import GeneratorSettings
from citewire_kit import telemetry
from citewire_kit.server import GrpcServer, run, run_until_signal
from citewire_kit.settings import load_settings


def main() -> None:
    """Runs the generator until SIGTERM or SIGINT. Exits 2 on invalid settings, 1 if it can't start."""
    settings = load_settings(GeneratorSettings)
    handle = telemetry.setup("generator", settings)

    async def build(stack: AsyncExitStack) -> GrpcServer:
        return await start(stack, settings)

    try:
        run(run_until_signal(build, settings))
    finally:
        handle.shutdown()


if __name__ == "__main__":
    main()
