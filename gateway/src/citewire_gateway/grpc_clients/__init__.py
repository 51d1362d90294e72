"""The three services as the domain sees them, over gRPC."""
