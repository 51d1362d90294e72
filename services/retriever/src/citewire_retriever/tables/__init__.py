"""Reads questions to tables as queries, without a model where possible.

Pure functions, without gRPC or database.
"""
