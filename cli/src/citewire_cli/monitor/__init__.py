"""What the dashboards show, at a terminal: read from the processes' own metrics, without a Prometheus."""
