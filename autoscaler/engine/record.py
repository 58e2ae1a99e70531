"""The record folder: all inputs of a plan, as files that a person can read, write and send to somebody else.

`write_record` writes one observation, `read_record` makes a snapshot of a folder without any Grid Engine; every file
but `qstat.xml` may be missing and then means a documented default (docs/record-folder.md). No secret is ever in it:
only settings of the table are written, none with a secret's name, and never a provider's own; of Grid
Engine's outputs what is read (`sge.only_read`): of jobs neither environment nor arguments.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from autoscaler.constraints.rule_files import document_of
from autoscaler.constraints.rules import load_rules
from autoscaler.core.constraints.ruleset import Rules
from autoscaler.core.cost.spending import Spending
from autoscaler.core.estimates.estimates import NO_ESTIMATES, Estimates
from autoscaler.core.model.evidence import Evidence
from autoscaler.core.model.fleet import Fleet
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.request_sets import Requests
from autoscaler.core.requests.array_timeouts import under
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.fleet_file import dump_fleet, load_fleet, to_seconds
from autoscaler.errors import GridEngineNotObservable, NotFound, SettingsError
from autoscaler.new_folder import new_folder
from autoscaler.outside_files import TOO_DEEP, read_regular
from autoscaler.settings import Settings, is_secret, load_settings
from autoscaler.sge.cluster import Outputs, cluster_from
from autoscaler.sge.only_read import only_read
from autoscaler.store import encoding

FILES = frozenset(
    {
        "qstat.xml",
        "qhost.xml",
        "qstat-j.xml",
        "qconf",
        "provider.json",
        "settings.toml",
        "memory.json",
        "evidence.json",
        "overrides.json",
        "requests.json",
        "spending.json",
        "estimates.json",
        "rules.json",
        "master",
        "now",
    }
)
BESIDE = frozenset({"expect.toml", "README.md"})
"""Files that make a record a case, or explain it; not read here."""

LARGEST = 256 << 20
"""Bytes of one file: `qstat.xml` of 50,000 waiting jobs has a tenth of that."""
_XML_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
_COMMAND = "CP_CAP_AUTOSCALE_HEALTH_CHECK"
"""A setting that is a command, by its first part: it is there once a queue."""
_IN_URL = re.compile(r"://[^\s/@\"']*@")
_WORDS = frozenset({"circuit_breaker", "context", "failed", "message", "said", "stopped"})
"""Fields with free text: a time in them stays text."""


def write_record(directory: Path, snapshot: Snapshot, *, outputs: Outputs, settings: Settings, now: datetime) -> None:
    """Write one observation: the outputs that its cluster was read from, and the rest of the snapshot. `now` carries
    the zone in which Grid Engine printed its times.

    Raises SettingsError if the directory is not empty, or cannot be made or written.
    """
    outputs = only_read(outputs)
    files: dict[str, bytes | str | None] = {
        "qstat.xml": outputs.qstat,
        "qhost.xml": outputs.qhost,
        "qstat-j.xml": outputs.qstat_j,
        "provider.json": dump_fleet(snapshot.fleet) + "\n",
        "settings.toml": _settings_text(settings),
        "memory.json": encoding.write(snapshot.memory, indent=2) + "\n",
        "evidence.json": encoding.write(snapshot.evidence, indent=2) + "\n",
        "overrides.json": encoding.write(snapshot.overrides, indent=2) + "\n",
        "requests.json": encoding.write(_without_words(snapshot.requests), indent=2) + "\n",
        "spending.json": _spending_text(snapshot.spending),
        "estimates.json": _estimates_text(snapshot.estimates),
        "rules.json": document_of(snapshot.policy.rules),
        "master": snapshot.policy.master + "\n",
        "now": now.isoformat() + "\n",
        **{f"qconf/{stem}.txt": text for stem, text in outputs.qconf.items()},
    }
    data = {
        name: content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
        for name, content in files.items()
        if content is not None
    }
    write_files(directory, data)


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a record. Raises SettingsError as `write_record`."""
    refuse_full(directory)
    try:
        with new_folder(directory) as folder:
            for name, content in files.items():
                folder.write(name, content)
    except OSError as error:
        raise SettingsError(f"cannot write the record {directory}: {error.strerror} ({error.filename})") from error


def refuse_full(directory: Path) -> None:
    """Raise SettingsError if the directory is not empty: a record must not mix with other files."""
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise SettingsError(f"{directory} is not empty: name a new directory for the record")


def read_record(directory: Path) -> Snapshot:
    """The snapshot that a folder describes.

    Raises NotFound if there is no such record, SettingsError naming the file that is unknown or malformed,
    GridEngineNotObservable if Grid Engine's outputs make no cluster.
    """
    if not directory.is_dir():
        raise NotFound(f"{directory} is not a directory: name one that `sge-autoscaler record DIR` wrote")
    for entry in sorted(directory.iterdir()):
        if entry.name not in FILES | BESIDE and not entry.name.startswith("."):
            raise SettingsError(f"{entry} is not part of a record; known are {', '.join(sorted(FILES | BESIDE))}")
    outputs = read_outputs_of(directory)
    now = _now(directory / "now", outputs.qstat)
    zone = now.tzinfo or UTC
    try:
        cluster = cluster_from(outputs, zone=zone, now=now.timestamp())
    except GridEngineNotObservable as error:
        raise GridEngineNotObservable(f"{directory}: {error}") from error
    settings_file = directory / "settings.toml"
    settings = load_settings({}, settings_file if os.path.lexists(settings_file) else None)
    policy = under(
        _rules(directory / "rules.json"), settings.policy(master=(_text(directory / "master") or "").strip())
    )
    fleet = _fleet(directory / "provider.json", zone)
    memory = _value(directory / "memory.json", Memory, zone) or Memory()
    requests = _value(directory / "requests.json", Requests, zone) or Requests()
    return Snapshot(
        cluster=cluster,
        fleet=fleet,
        overrides=_value(directory / "overrides.json", Overrides, zone) or Overrides(),
        memory=memory,
        policy=in_force(policy, requests, arrays_present(fleet, memory), fleet.buckets),
        now=now.timestamp(),
        evidence=_value(directory / "evidence.json", Evidence, zone) or Evidence(),
        requests=requests,
        spending=_value(directory / "spending.json", Spending, zone) or Spending(),
        estimates=_value(directory / "estimates.json", Estimates, zone) or NO_ESTIMATES,
    )


def _now(file: Path, qstat: bytes) -> datetime:
    """When a record was made, with its zone; without the file, the newest time in `qstat.xml`, as UTC."""
    written = _text(file)
    if written is None:
        times = [datetime.fromisoformat(found.decode()) for found in set(_XML_TIME.findall(qstat))]
        if not times:
            raise SettingsError(
                f"{file} is missing and qstat.xml contains no time: write the file with a time such as "
                "2026-11-21T09:04:23+00:00"
            )
        return max(times).replace(tzinfo=UTC)
    wrong = SettingsError(f"{file}: {written.strip()!r} is not a time with an offset: write 2026-11-21T09:04:23+00:00")
    try:
        now = datetime.fromisoformat(written.strip())
    except ValueError:
        raise wrong from None
    if now.tzinfo is None:
        raise wrong
    return now


def read_outputs_of(directory: Path) -> Outputs:
    """Grid Engine's outputs of a record. Raises NotFound, SettingsError."""
    folder = directory / "qconf"
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    for entry in found:
        if entry.suffix != ".txt":
            raise SettingsError(
                f"{entry} is not part of a record: outputs of qconf are named after its switch, as sc.txt"
            )
    return Outputs(
        qstat=_qstat(directory),
        qhost=_bytes(directory / "qhost.xml"),
        qconf={entry.stem: _text(entry) or "" for entry in found},
        qstat_j=_bytes(directory / "qstat-j.xml"),
    )


def _qstat(directory: Path) -> bytes:
    data = _bytes(directory / "qstat.xml")
    if data is None:
        raise NotFound(f"{directory / 'qstat.xml'} is missing: a record has at least the output of qstat")
    return data


def _fleet(file: Path, zone: tzinfo) -> Fleet:
    try:
        return load_fleet(_text(file), zone)
    except RecursionError as error:
        raise SettingsError(f"{file}: {TOO_DEEP}") from error
    except ValueError as error:
        raise SettingsError(f"{file}: {error}") from error


def _rules(file: Path) -> Rules | None:
    return load_rules(file) if os.path.lexists(file) else None


def _value(file: Path, kind: type[Any], zone: tzinfo) -> Any:
    """A core value from a file in the store's notation, in which times may also be ISO 8601; None: no such file."""
    text = _text(file)
    if text is None:
        return None
    try:
        given = _with_seconds(json.loads(text), zone)
        value = encoding.read(json.dumps(given), kind)
        _refuse_unknown(given, json.loads(encoding.write(value)))
    except RecursionError as error:
        raise SettingsError(f"{file}: {TOO_DEEP}") from error
    except ValueError as error:
        raise SettingsError(f"{file}: {error}") from error
    return value


def _with_seconds(value: Any, zone: tzinfo) -> Any:
    if isinstance(value, dict):
        return {key: item if key in _WORDS else _with_seconds(item, zone) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_seconds(item, zone) for item in value]
    return to_seconds(value, zone) if isinstance(value, str) and _TIME.fullmatch(value) else value


def _refuse_unknown(given: Any, understood: Any, place: str = "") -> None:
    """A misspelt name must not pass for a default. Raises ValueError."""
    if isinstance(given, Mapping) and isinstance(understood, Mapping):
        for name, item in given.items():
            if name not in understood:
                raise ValueError(f"{place}{name} is unknown; known are {', '.join(sorted(understood))}")
            _refuse_unknown(item, understood[name], f"{place}{name}.")
    elif isinstance(given, list) and isinstance(understood, list):
        for index, (item, known) in enumerate(zip(given, understood, strict=False)):
            _refuse_unknown(item, known, f"{place}{index}.")


def _settings_text(settings: Settings) -> str:
    """Settings that are not default, under environment names. JSON's strings are TOML's, except DEL, which no setting
    contains.
    """
    head = "# The settings that were given when this was recorded; all others had their defaults.\n"
    own = {name: origin.value for name, origin in settings.origins.items() if name not in settings.provider_values}
    shown = {name: value for name, value in own.items() if not is_secret(name)}
    return head + "".join(
        f"{name} = {json.dumps(_without_secrets(name, value), ensure_ascii=False)}\n"
        for name, value in sorted(shown.items())
    )


def _without_secrets(name: str, value: object) -> object:
    """A command without its arguments, and a URL without its user and password: nothing is decided on them."""
    if not isinstance(value, str):
        return value
    if name.startswith(_COMMAND):
        value = value.split(maxsplit=1)[0] if value.split() else value
    return _IN_URL.sub("://", value)


def _spending_text(spending: Spending) -> str | None:
    """None if no budget is set: then a version that does not know the file reads the record, too."""
    return None if spending == Spending() else encoding.write(spending, indent=2) + "\n"


def _estimates_text(estimates: Estimates) -> str | None:
    """None if nothing was estimated, as for spending."""
    return None if estimates == NO_ESTIMATES else encoding.write(estimates, indent=2) + "\n"


def _without_words(requests: Requests) -> Requests:
    """No decision depends on what a caller wrote for workers to read, and passwords may be in it."""
    arrays = tuple(replace(array, configuration="{}", attributes="{}") for array in requests.arrays)
    return replace(requests, arrays=arrays)


def _bytes(file: Path) -> bytes | None:
    try:
        return read_regular(file, LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"cannot read {file}: {error.strerror}") from error


def _text(file: Path) -> str | None:
    data = _bytes(file)
    return None if data is None else data.decode("utf-8", "surrogateescape")
