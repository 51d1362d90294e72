"""What every Citewire process shares: settings, telemetry, server and channel bootstrap, errors, tenant context."""
