"""Questions that a table answers: which of them can be read as a query without a model, and as which.

Pure functions, without gRPC and without a database.
"""
