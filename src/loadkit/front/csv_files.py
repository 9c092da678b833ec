"""Locust's CSV files with the last second in them: Locust writes once a second and closes without a last look."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import gevent
import locust.stats
from locust.stats import StatsCSVFileWriter

from loadkit.front.locust_rows import bucket
from loadkit.gauges import HISTORY_COLUMNS

MARK_BYTES = len("\ufeff".encode())


class CSVFiles(StatsCSVFileWriter):
    """Locust's writer, which also writes everything once more when a run ends, and for the last time when Locust quits.

    `--json` empties the statistics before Locust closes the files, while its writing loop still runs; so it ends here first.
    """

    def __init__(self, environment: Any, *arguments: Any, **named: Any):
        super().__init__(environment, *arguments, **named)
        environment.loadkit_csv = self
        self.stats_history_csv_columns += HISTORY_COLUMNS
        self._loop: gevent.Greenlet | None = None
        self._header()

    def _header(self) -> None:
        """Locust's loop writes the headers when it starts, which may be after the run of a library user has ended.

        A byte-order mark comes first: Excel needs it for names in Chinese and for µ and ·.
        """
        tables = (self.requests_csv_filehandle, self.failures_csv_filehandle, self.exceptions_csv_filehandle)
        for file in (*tables, self.stats_history_csv_filehandle):
            file.reconfigure(encoding="utf-8")
            file.write("\ufeff")
        self.requests_csv_writer.writerow(self.requests_csv_columns)
        self._requests_start = self.requests_csv_filehandle.tell()
        self.failures_csv_writer.writerow(self.failures_columns)
        self.failures_csv_data_start = self.failures_csv_filehandle.tell()
        self.exceptions_csv_writer.writerow(self.exceptions_columns)
        self.exceptions_csv_data_start = self.exceptions_csv_filehandle.tell()
        for file in tables:
            file.seek(MARK_BYTES)

    def write_all(self) -> None:
        """Every file as of now; does nothing while the statistics are empty."""
        if not self.environment.stats.entries or self.requests_csv_filehandle.closed:
            return
        for file, start, rows, writer in (
            (self.requests_csv_filehandle, self._requests_start, self._requests_data_rows, self.requests_csv_writer),
            (self.failures_csv_filehandle, self.failures_csv_data_start, self._failures_data_rows, self.failures_csv_writer),
            (
                self.exceptions_csv_filehandle,
                self.exceptions_csv_data_start,
                self._exceptions_data_rows,
                self.exceptions_csv_writer,
            ),
        ):
            file.seek(start)
            rows(writer)
            file.truncate()
            file.flush()
        if self.stats_history_csv_filehandle.tell() <= MARK_BYTES:
            self.stats_history_csv_writer.writerow(self.stats_history_csv_columns)
        self._stats_history_data_rows(self.stats_history_csv_writer, time.time())
        self.stats_history_flush()

    def _stats_history_data_rows(self, csv_writer: Any, now: float) -> None:
        """Each row with the sidecar's figures of the moment behind Locust's columns."""
        figures = getattr(self.environment, "loadkit_gauges", (None,) * len(HISTORY_COLUMNS))
        super()._stats_history_data_rows(_Longer(csv_writer, figures), now)

    def stats_writer(self) -> None:
        self._loop = gevent.getcurrent()
        super().stats_writer()

    def last_look(self) -> None:
        """Nothing is written after this."""
        if self._loop is not None:
            self._loop.kill()
        self.write_all()


class _Longer:
    """A CSV writer that adds cells to each row."""

    def __init__(self, writer: Any, cells: tuple[float | None, ...]):
        self._writer = writer
        self._cells = cells

    def writerow(self, row: Iterable[Any]) -> None:
        self._writer.writerow([*row, *self._cells])


def install() -> None:
    """Locust looks the class and the bucket function up in its module after it has read the locustfile."""
    locust.stats.StatsCSVFileWriter = CSVFiles  # type: ignore[misc]
    locust.stats.bucket_response_time = bucket  # type: ignore[assignment]
