"""Wire formats: one file per format, each turning canonical events into bytes."""
