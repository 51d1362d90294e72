"""The golden signals of each process."""

from typing import Final

from scripts.monitoring.panels import Dashboard, Panel, Query, Row
from scripts.monitoring.queries import percentiles, quantile, rate

SERVICES: Final = Dashboard(
    uid="citewire-services",
    title="Citewire services",
    says="Traffic, errors, latency and saturation of each process.",
    choose_job=True,
    rows=(
        Row(
            "Traffic and errors",
            (
                Panel(
                    "gRPC calls per second",
                    (
                        Query(
                            rate('grpc_server_handled_total{job=~"$job"}', "grpc_service", "grpc_method"),
                            "{{grpc_method}}",
                        ),
                    ),
                    unit="reqps",
                ),
                Panel(
                    "Failed gRPC calls, by code",
                    (
                        Query(
                            rate('grpc_server_handled_total{job=~"$job", grpc_code!="OK"}', "grpc_method", "grpc_code"),
                            "{{grpc_method}} {{grpc_code}}",
                        ),
                    ),
                    unit="reqps",
                ),
                Panel(
                    "HTTP requests per second, by status",
                    (Query(rate('citewire_http_requests_total{job=~"$job"}', "status"), "{{status}}"),),
                    unit="reqps",
                ),
                Panel(
                    "HTTP 5xx, by route",
                    (
                        Query(
                            rate('citewire_http_requests_total{job=~"$job", status=~"5.."}', "route"),
                            "{{route}}",
                        ),
                    ),
                    unit="reqps",
                ),
            ),
            across=2,
        ),
        Row(
            "Latency",
            (
                Panel(
                    "gRPC, p95 by method",
                    (
                        Query(
                            quantile(0.95, 'grpc_server_handling_seconds{job=~"$job"}', "grpc_method"),
                            "{{grpc_method}}",
                        ),
                    ),
                    unit="s",
                    says="Streams are measured from start to end.",
                ),
                Panel(
                    "gRPC, all methods",
                    percentiles('grpc_server_handling_seconds{job=~"$job", grpc_type="unary"}'),
                    unit="s",
                    says="Without streams.",
                ),
                Panel(
                    "HTTP, p95 by route",
                    (Query(quantile(0.95, 'citewire_http_request_seconds{job=~"$job"}', "route"), "{{route}}"),),
                    unit="s",
                    says="To the end of the answer.",
                ),
            ),
        ),
        Row(
            "Saturation",
            (
                Panel(
                    "CPU cores in use",
                    (Query(rate('process_cpu_seconds_total{job=~"$job"}', "job", "instance"), "{{job}} {{instance}}"),),
                ),
                Panel(
                    "Memory",
                    (
                        Query(
                            'sum by (job, instance) (process_resident_memory_bytes{job=~"$job"})',
                            "{{job}} {{instance}}",
                        ),
                    ),
                    unit="bytes",
                ),
                Panel(
                    "gRPC calls in flight",
                    (Query('sum by (job) (citewire_grpc_server_in_flight{job=~"$job"})', "{{job}}"),),
                ),
                Panel(
                    "Waiting for a connection to Postgres",
                    (
                        Query(
                            rate('citewire_db_pool_wait_seconds_total{job=~"$job"}', "job", "pool"),
                            "{{job}} {{pool}}",
                        ),
                    ),
                    says="Seconds waited per second: the average number of waiting callers.",
                    alarm=0.5,
                ),
                Panel(
                    "Connections to Postgres",
                    (
                        Query(
                            'sum by (pool) (citewire_db_pool_connections{job=~"$job"})'
                            ' - sum by (pool) (citewire_db_pool_idle{job=~"$job"})',
                            "{{pool}} in use",
                        ),
                        Query('sum by (pool) (citewire_db_pool_limit{job=~"$job"})', "{{pool}} limit"),
                    ),
                ),
                Panel(
                    "File descriptors in use",
                    (
                        Query(
                            'max by (job) (process_open_fds{job=~"$job"} / process_max_fds{job=~"$job"})',
                            "{{job}}",
                        ),
                    ),
                    unit="percentunit",
                    alarm=0.8,
                ),
            ),
        ),
        Row(
            "The embedder's own model",
            (
                Panel(
                    "Tokens admitted and not yet answered",
                    (Query("sum by (purpose) (citewire_embedder_admitted_tokens)", "{{purpose}}"),),
                    stack=True,
                ),
                Panel(
                    "Rejected because the queue was full",
                    (Query(rate("citewire_embedder_refused_total", "purpose"), "{{purpose}}"),),
                    unit="ops",
                ),
                Panel(
                    "Computing time and texts per batch",
                    (
                        Query(quantile(0.95, "citewire_embedder_batch_seconds"), "p95, seconds"),
                        Query(
                            rate("citewire_embedder_batch_texts_sum")
                            + " / "
                            + rate("citewire_embedder_batch_texts_count"),
                            "texts on average",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Versions",
            (
                Panel(
                    "Processes by version",
                    (Query("count by (service, version) (citewire_build_info)", "{{service}} {{version}}"),),
                    kind="table",
                ),
                Panel(
                    "Started in the last hour",
                    (Query('time() - process_start_time_seconds{job=~"$job"} < 3600', "{{job}} {{instance}}"),),
                    unit="s",
                    kind="table",
                ),
            ),
        ),
    ),
)
