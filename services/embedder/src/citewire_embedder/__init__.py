"""The embedder: text to vectors over gRPC."""
