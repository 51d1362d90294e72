"""Shared by all Citewire processes: settings, telemetry, server and channel bootstrap, errors, tenant context."""

import os
import sys

WITHOUT_EVENT_ENGINE = "-event_engine_client,-event_engine_listener"
"""In the form that `GRPC_EXPERIMENTS` expects."""

if sys.platform == "linux":
    # gRPC reads this when it is loaded. Its event engine passes each message from thread to thread; without it, the one
    # thread that waits for grpc.aio's events also waits for its sockets. Elsewhere nothing waits for idle ones then.
    os.environ.setdefault("GRPC_EXPERIMENTS", WITHOUT_EVENT_ENGINE)
