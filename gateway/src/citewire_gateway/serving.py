"""`serve`: the process that answers HTTP."""

from contextlib import AsyncExitStack

from citewire_gateway.app import build_app, build_services
from citewire_gateway.settings import GatewaySettings
from citewire_http.server import Drain, GatewayServer, check_address
from citewire_kit.server import run, settle
from citewire_kit.settings import load_settings
from citewire_kit.telemetry import setup, start_metrics_server


def main() -> None:
    """Serves until a signal."""
    settings = load_settings(GatewaySettings)
    telemetry = setup("gateway", settings)
    try:
        run(serve(settings))
    finally:
        telemetry.shutdown()


async def serve(settings: GatewaySettings) -> None:
    """Serves until a signal, then drains and closes everything in reverse."""
    async with AsyncExitStack() as stack:
        metrics = start_metrics_server(settings)
        stack.callback(metrics.close)
        await check_address(settings)
        drain = Drain()
        services = await build_services(settings, stack, drain)
        app = build_app(services)
        settle()
        await GatewayServer(app, settings, drain).serve()
