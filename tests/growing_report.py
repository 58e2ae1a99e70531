"""The results of a run so far: each failure is printed when it happens, and a JUnit file is complete after every test.
pytest prints the ids of failed tests and writes `--junitxml` at its end only; a killed run names none.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest

HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<testsuites>\n<testsuite name="sge-autoscaler">\n'
TAIL = "</testsuite>\n</testsuites>\n"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JUnitFile:
    """Test cases as they end. The file is rewritten in place, so that it keeps its owner."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)
        self._end = 0
        self._write(HEAD)

    def add(self, report: pytest.TestReport) -> None:
        """One element for each test that ran or was skipped; one more for a failure around it."""
        if report.when != "call" and report.passed:
            return
        self._write(_element(report))

    def close(self) -> None:
        self._file.close()

    def _write(self, text: str) -> None:
        """Written in one call, end included: a kill finds the file before it or after it. It only grows, so nothing is
        cut.
        """
        grown = text.encode()
        self._file.seek(self._end)
        self._file.write(grown + TAIL.encode())
        self._end += len(grown)


def _element(report: pytest.TestReport) -> str:
    where, _, name = report.nodeid.partition("::")
    names = f"classname={quoteattr(_text(where))} name={quoteattr(_text(name))}"
    inside = "".join(_outcome(report))
    return f'<testcase {names} time="{report.duration:.3f}">{inside}</testcase>\n'


def _outcome(report: pytest.TestReport) -> list[str]:
    if report.failed:
        kind = "error" if _around(report) else "failure"
        sections = (f"---- {title} ----\n{content}" for title, content in report.sections)
        result = _text("\n".join((report.longreprtext, *sections)))
        return [f"<{kind} message={quoteattr(_text(headline(report)))}>{escape(result)}</{kind}>"]
    if report.skipped:
        return [f"<skipped message={quoteattr(_text(_why_skipped(report)))}/>"]
    return []


def _why_skipped(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    return str(getattr(report, "wasxfail", "")) or report.longreprtext


def _around(report: pytest.TestReport) -> str:
    """In which part around the test it failed; '' for the test itself, also if its worker died."""
    return report.when if report.when in ("setup", "teardown") else ""


def headline(report: pytest.TestReport) -> str:
    """The cause, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = report.longrepr if isinstance(report.longrepr, str) else report.longreprtext  # a str: its worker died
    result = (crash.message if crash is not None else text).strip()
    return str(result.splitlines()[0]) if result else ""


def _text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


class GrowingReport:
    """The plugin; one in the process that the user started, none in the workers of xdist."""

    def __init__(self, config: pytest.Config) -> None:
        path: Path | None = config.getoption("--growing-junit")
        self._config, self._file = config, None if path is None else JUnitFile(path)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._file is not None:
            self._file.add(report)
        # Made after the conftest files were read.
        terminal: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            around = f" in its {_around(report)}" if _around(report) else ""
            terminal.write_line(
                f"\nFAILED {report.nodeid}{around} after {report.duration:.1f} s: {headline(report)}", red=True
            )
            terminal.flush()  # a file as output is written in blocks, and the last one would never be

    def pytest_unconfigure(self) -> None:
        if self._file is not None:
            self._file.close()


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--growing-junit", type=Path, metavar="PATH", help="a JUnit file that is whole after every test")


def register(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(GrowingReport(config), "growing-report")
