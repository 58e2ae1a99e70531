"""Writes after each pass what submissions are judged by."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.engine.pass_listener import Pass, PassListener
from autoscaler.report.admission_file import AdmissionFile


@dataclass(slots=True)
class Admissions(PassListener):
    """One for the life of a process."""

    title = "the file for submissions"

    file: AdmissionFile

    def passed(self, done: Pass) -> None:
        self.file.keep(done.observation.snapshot, done.poll)
