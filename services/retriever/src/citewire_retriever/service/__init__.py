"""The domain: what uploads, searches and plans mean. No gRPC, no SQL."""
