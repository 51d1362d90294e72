"""Children's output: rotated files, split lines, readable text."""

from __future__ import annotations

import json
from pathlib import Path

from citewire_cli.stack.logs import LineSplitter, LogLine, RotatingFile, read_line


def test_rotation_limits_files_and_keeps_every_recent_line(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log = RotatingFile(path, limit=100, backups=2)
    lines = [f"line {number:03}\n".encode() for number in range(60)]
    for line in lines:
        assert log.write(line) is None
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["x.log", "x.log.1", "x.log.2"]
    assert all(file.stat().st_size <= 100 for file in files)
    stored = b"".join((tmp_path / name).read_bytes() for name in ("x.log.2", "x.log.1", "x.log"))
    assert b"".join(lines).endswith(stored)
    assert len(stored) > 200


def test_restart_appends(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        log = RotatingFile(tmp_path / "x.log")
        log.write(text)
        log.close()
    assert (tmp_path / "x.log").read_bytes() == b"one\ntwo\n"


def test_full_disk_is_reported_once_and_drops_lines() -> None:
    log = RotatingFile(Path("/dev/full"))
    assert log.write(b"a\n") == "No space left on device"
    assert log.write(b"b\n") is None
    log.close()


def test_lines_are_split_wherever_chunks_end() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\nb") == [b"a"]
    assert splitter.feed(b"c\n\nd") == [b"bc", b""]
    assert splitter.end() == [b"d"]
    assert splitter.end() == []


def test_endless_line_is_cut() -> None:
    splitter = LineSplitter(longest=10)
    assert splitter.feed(b"x" * 11) == [b"x" * 11]
    assert splitter.feed(b"y\n") == [b"y"]


def test_json_log_becomes_readable() -> None:
    record = {
        "ts": "2026-11-21T00:00:00Z",
        "level": "warning",
        "event": "chat_ended",
        "service": "gateway",
        "trace_id": "t",
        "span_id": "s",
        "logger": "x",
        "request_id": "r1",
        "seconds": 0.5,
        "reason": "client left",
        "exception": "Traceback…\nValueError: x",
    }
    assert read_line(json.dumps(record).encode()) == LogLine(
        30, "chat_ended", 'seconds=0.5 reason="client left"', "Traceback…\nValueError: x"
    )


def test_successful_reads_are_logged_at_debug_level() -> None:
    request = {"level": "info", "event": "http_request", "method": "GET", "status": 200}
    assert read_line(json.dumps(request).encode()).level == 10
    assert read_line(json.dumps(request | {"status": 503}).encode()).level == 20
    assert read_line(json.dumps(request | {"method": "POST"}).encode()).level == 20


def test_other_text_stays_as_it_is() -> None:
    assert read_line(b"{not json}\r\n") == LogLine(20, "{not json}")
    assert read_line(b'{"no": "event"}') == LogLine(20, '{"no": "event"}')
    assert read_line(b"a\x1b[31mb") == LogLine(20, "a[31mb")


def test_levels_of_postgres() -> None:
    assert read_line(b"2026-11-21 00:00:00.000 UTC [7] FATAL:  no").level == 40
    assert read_line(b"2026-11-21 00:00:00.000 UTC [7] PANIC:  no").level == 50
    assert read_line(b"2026-11-21 00:00:00.000 UTC [7] WARNING:  no").level == 30
    assert read_line(b"2026-11-21 00:00:00.000 UTC [7] LOG:  ERROR was here").level == 20
    assert read_line(b"2026-11-21 00:00:00.000 UTC [7] FATAL:  the database system is starting up").level == 20
