"""The dashboards' figures in a terminal, read from the processes' metrics without Prometheus."""
