"""The domain logic of uploads, searches and plans, without gRPC or SQL."""
