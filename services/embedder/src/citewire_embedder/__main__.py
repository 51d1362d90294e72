"""`python -m citewire_embedder`: the embedder process."""

from contextlib import AsyncExitStack

import citewire_kit  # noqa: F401 # pyright: ignore[reportUnusedImport] # before gRPC is loaded: see there
from citewire_embedder.app import start
from citewire_embedder.settings import EmbedderSettings
from citewire_kit import telemetry
from citewire_kit.server import GrpcServer, run, run_until_signal
from citewire_kit.settings import load_settings


def main() -> None:
    """Runs the embedder until SIGTERM or SIGINT. Exits 2 on invalid settings, 1 if it can't start."""
    settings = load_settings(EmbedderSettings)
    handle = telemetry.setup("embedder", settings)

    async def build(stack: AsyncExitStack) -> GrpcServer:
        return await start(stack, settings)

    try:
        run(run_until_signal(build, settings))
    finally:
        handle.shutdown()


if __name__ == "__main__":
    main()
