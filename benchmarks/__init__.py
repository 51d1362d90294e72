"""Side-by-side measurements. Each is a command, `python -m benchmarks.NAME`, that prints its tables from one run."""
