"""Targets that read: outputs of Grid Engine, settings, rules with VM sizes, record folders."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

from autoscaler.constraints.rules import load_rules
from autoscaler.constraints.vm_sizes import load_vm_sizes
from autoscaler.core.model.cluster import Cluster
from autoscaler.core.plan import plan
from autoscaler.engine.record import read_record
from autoscaler.report.document import document
from autoscaler.report.sentence import sentence
from autoscaler.settings import load_settings
from autoscaler.sge.accounting import read_ends, read_on, read_starts
from autoscaler.sge.cluster import Outputs, cluster_from
from autoscaler.sge.lookup import read_owner
from autoscaler.sge.messages import job_named, meaning
from tests.cases.test_cases import CASES
from tests.cases.test_cases import HERE as CASES_HERE
from tests.cases.whole import write_whole
from tests.fuzz.judges import beyond_limits
from tests.fuzz.mutation import Mutator

SGE = Path(__file__).parents[1] / "sge"
FOLDERS = (*(SGE / "recorded" / name for name in ("mixed", "jobs", "states")), *sorted((SGE / "dialects").iterdir()))
NOW = 1_800_000_000.0


def outputs_of(folder: Path) -> Outputs:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (folder / "qconf").iterdir()}
    qstat, qhost, details = (folder / name for name in ("qstat.xml", "qhost.xml", "qstat-j.xml"))
    return Outputs(qstat.read_bytes(), qhost.read_bytes(), texts, details.read_bytes())


class Readers:
    """Outputs of Grid Engine, damaged: a cluster or a refusal, and a plan of every cluster."""

    def __init__(self, directory: Path) -> None:
        self._base = read_record(write_whole(CASES[0], directory / "base"))
        self._cells = [outputs_of(folder) for folder in FOLDERS]
        self._busy = [busy(cluster_from(cell, zone=UTC, now=NOW)) for cell in self._cells]
        self._directory = directory
        recorded = json.loads((SGE / "recorded" / "messages.json").read_text(encoding="utf-8"))
        self._messages = json.dumps(recorded).encode()
        self._accountings = [
            (SGE / "recorded" / "accounting" / "starts.txt").read_bytes(),
            (SGE / "dialects" / "univa-8.6" / "accounting").read_bytes(),
            (SGE / "dialects" / "ocs-9" / "accounting.jsonl").read_bytes(),
        ]

    def feed(self, seed: str) -> str:
        mutator = Mutator(seed)
        what: Callable[[Mutator], None] = mutator.pick(
            (self._cluster,) * 7 + (self._accounting, self._lines, self._details)
        )
        what(mutator)
        return "read"

    def _cluster(self, mutator: Mutator) -> None:
        number = mutator.chance.randrange(len(self._cells))
        cell, piece = self._cells[number], mutator.pick(("qstat", "qhost", "qstat_j", "qconf", "qconf"))
        if piece == "qconf":
            stem = mutator.pick(sorted(cell.qconf))
            text = mutator.damaged(cell.qconf[stem].encode()).decode("utf-8", "surrogateescape")
            fed = replace(cell, qconf={**cell.qconf, stem: text})
        else:
            damaged: dict[str, Any] = {piece: mutator.damaged(getattr(cell, piece))}
            fed = replace(cell, **damaged)
        cluster = cluster_from(fed, zone=UTC, now=NOW)
        seen = replace(self._base, cluster=cluster, now=NOW)
        made = plan(seen)
        assert not (wrong := beyond_limits(seen, made)), wrong
        assert sentence(made)

    def _accounting(self, mutator: Mutator) -> None:
        data = mutator.damaged(mutator.pick(self._accountings))
        read_starts(data)
        file = self._directory / "accounting"
        file.write_bytes(data)
        read_on(file, mutator.pick((None, 0, 10, 1 << 40)))
        read_ends(file, 1)

    def _lines(self, mutator: Mutator) -> None:
        for line in mutator.damaged(self._messages).decode("utf-8", "replace").splitlines():
            meaning(line)
            job_named(line)

    def _details(self, mutator: Mutator) -> None:
        read_owner(mutator.damaged(mutator.pick(self._cells).qstat_j or b""), 1)

    def settle(self) -> None:
        """Undamaged outputs are still read the same: no input is left in a cache."""
        for cell, was in zip(self._cells, self._busy, strict=True):
            assert busy(cluster_from(cell, zone=UTC, now=NOW)) == was, "whole outputs are read otherwise than before"


def busy(cluster: Cluster) -> frozenset[str]:
    return frozenset(host.name for host in cluster.hosts if host.busy)


# -- settings ----------------------------------------------------------------------------------------------------------

SAMPLE = Path(__file__).parents[2] / "conf" / "sge-autoscaler.toml"


class SettingsFiles:
    """A settings file and an environment: settings with their policy, or a refusal that names what is wrong."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "settings.toml"
        lines = [line.lstrip("# ") for line in SAMPLE.read_text(encoding="utf-8").splitlines() if " = " in line]
        self._lines = [line for line in lines if line.startswith("CP_CAP_")]
        self._names = [line.partition(" = ")[0] for line in self._lines]

    def feed(self, seed: str) -> str:
        mutator = Mutator(seed)
        lines = {mutator.pick(self._lines) for _ in range(mutator.chance.randint(1, 12))}
        data = "\n".join(sorted(lines)).encode()
        if mutator.often(0.5):
            data = mutator.damaged(data, 2)
        if mutator.often(0.02):
            data = b"a = " + b"[" * 100_000
        self._file.write_bytes(data)
        names = [mutator.pick(self._names) + mutator.pick(("", "", "_1", "_2", "_0", "_99999999999")) for _ in range(3)]
        environ = {name: self._text(mutator) for name in names if mutator.often(0.2)}
        settings = load_settings(environ, self._file, strict=mutator.often(0.3))
        policy = settings.policy(master="master")
        for array in policy.node_arrays:
            assert array.limits.max_workers >= 0, f"{array.limits.max_workers} workers are allowed"
            for value in (array.idle_timeout, array.boot_timeout, array.limits.max_price_per_hour or 0.0):
                assert 0 <= value < float("inf"), f"a time or price of {value}"
        return "read"

    @staticmethod
    def _text(mutator: Mutator) -> str:
        found = mutator.text() if mutator.often(0.6) else str(mutator.pick(NUMBERS_AS_TEXT))
        return found.replace("\x00", "")  # no environment holds it

    def settle(self) -> None:
        self._file.write_text("\n".join(sorted(set(self._lines[:3]))), encoding="utf-8")
        load_settings({}, self._file)


NUMBERS_AS_TEXT = (
    "0",
    "-1",
    "1e308",
    "nan",
    "inf",
    "9" * 5000,
    "true",
    "1,2",
    "a=b",
    "[]",
    "{}",
    "env:HOME",
    "file:/dev/zero",
)


# -- rules -------------------------------------------------------------------------------------------------------------


class RuleDocuments:
    """Rules and VM sizes of a file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        found = sorted(CASES_HERE.rglob("rules.json"))
        self._rules = [json.loads(path.read_text(encoding="utf-8")) for path in found]
        self._rules.append(BOTH)
        self._sizes = {"eastus": {"Standard_D2s_v5": {"vcpuCount": 2, "memory": 8}}}

    def feed(self, seed: str) -> str:
        mutator = Mutator(seed)
        sizes = mutator.often(0.2)
        value = self._sizes if sizes else mutator.pick(self._rules)
        for _ in range(mutator.pick((1, 1, 2))):
            value = mutator.changed(value)
        file = self._directory / ("rules.toml" if mutator.often(0.1) else "rules.json")
        text = mutator.json(value)
        file.unlink(missing_ok=True)
        file.write_bytes(b"constraints = " + text if file.suffix == ".toml" else text)
        if mutator.often(0.02):
            file.unlink()
            os.mkfifo(file)
        if sizes:
            load_vm_sizes(file)
        else:
            load_rules(file)
        return "read"

    def settle(self) -> None:
        file = self._directory / "whole.json"
        for value in self._rules:
            file.write_text(json.dumps(value), encoding="utf-8")
            load_rules(file)


BOTH: dict[str, Any] = {
    "default_resources": [{"select": {"node.vm_size": ["c5.large"]}, "name": "slot_type", "value": "node.nodearray"}],
    "constraints": [{"queue": "main.q", "require": [{"or": [{"node.vm_size": "c5.large"}, {"not": {"ncpus": 2}}]}]}],
}


# -- record folders ----------------------------------------------------------------------------------------------------


class RecordFolders:
    """Folders from outside: a plan within their own limits, or a refusal that names the file."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._whole = directory, directory / "whole"
        self._cases = [write_whole(case, self._whole / str(number)) for number, case in enumerate(CASES)]
        self._secret = directory / "secret"
        self._secret.write_text("a secret of the machine\n", encoding="utf-8")

    def feed(self, seed: str) -> str:
        mutator = Mutator(seed)
        folder = self._directory / "fed"
        shutil.copytree(mutator.pick(self._cases), folder, symlinks=True)
        try:
            self._spoil(mutator, folder)
            seen = read_record(folder)
            made = plan(seen)
            assert not (wrong := beyond_limits(seen, made)), wrong
            shown = document(seen, made, {}, by_job=True, zone=seen.cluster.zone)
            json.dumps(shown)
        finally:
            shutil.rmtree(folder)
        return "read"

    def _spoil(self, mutator: Mutator, folder: Path) -> None:
        for _ in range(mutator.chance.randint(1, 2)):
            file = mutator.pick(sorted(path for path in folder.rglob("*") if _is_plain(path)) or [folder / "qstat.xml"])
            if mutator.often(0.2) or not _is_plain(file):
                self._replace(mutator, file)
            elif file.suffix == ".json" and mutator.often(0.7):
                self._change(mutator, file)
            else:
                file.write_bytes(mutator.damaged(file.read_bytes()))

    @staticmethod
    def _change(mutator: Mutator, file: Path) -> None:
        try:
            value = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):  # what an earlier change left
            return
        file.write_bytes(mutator.json(mutator.changed(value)))

    def _replace(self, mutator: Mutator, file: Path) -> None:
        """Something else where a file was: what an unpacked archive may hold."""
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        file.unlink(missing_ok=True)
        how: Callable[[Path], object] = mutator.pick(
            (
                lambda path: path.symlink_to("/dev/zero"),
                lambda path: path.symlink_to(path.name),
                lambda path: path.symlink_to(self._secret),
                lambda path: path.symlink_to(self._directory / "nowhere"),
                lambda path: path.symlink_to(path.parent, target_is_directory=True),
                lambda path: path.mkdir(),
                os.mkfifo,
                _sparse,
                _deep,
                lambda path: _archive(path, self._secret, mutator.often(0.5)),
                lambda path: path.write_bytes(b"[" * 200_000),
                lambda path: path.write_bytes(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
            )
        )
        how(file)

    def settle(self) -> None:
        assert self._secret.read_text(encoding="utf-8") == "a secret of the machine\n", "a file outside was written"
        seen = read_record(self._cases[0])
        assert plan(seen) == plan(seen), "equal snapshots give different plans"


def _is_plain(path: Path) -> bool:
    """Whether it is a file that was not put there by an earlier change."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20


def _sparse(path: Path) -> None:
    """A file of 16 GiB that takes no room."""
    with path.open("wb") as file:
        file.truncate(16 << 30)


def _deep(path: Path) -> None:
    for number in range(40):
        path = path / str(number)
    path.mkdir(parents=True)


def _archive(path: Path, secret: Path, zipped: bool) -> None:
    if zipped:
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(secret, "../../outside")
    else:
        with tarfile.open(path, "w:gz") as packed:
            packed.add(secret, "../../outside")


# -- openers -----------------------------------------------------------------------------------------------------------


@contextmanager
def _in_folder(made: Callable[[Path], Any]) -> Iterator[Any]:
    with tempfile.TemporaryDirectory(prefix="sge-autoscaler-fuzz-") as directory:
        yield made(Path(directory))


FILES: Mapping[str, Callable[[Path], Any]] = {
    "readers": Readers,
    "settings": SettingsFiles,
    "rules": RuleDocuments,
    "records": RecordFolders,
}


def opened(name: str) -> Any:
    """The target of this name, in a folder of its own until the end of the block."""
    return _in_folder(FILES[name])
