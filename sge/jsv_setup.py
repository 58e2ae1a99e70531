"""Installs the job submission verifier in a cell, and removes it again.

Its files live beside the cell's own, because the qmaster refuses every job while the script of its `jsv_url` is
missing: an upgrade or an uninstall of ours must not remove it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoscaler.errors import GridEngineRefused
from autoscaler.new_folder import write_file
from autoscaler.sge import objects
from autoscaler.sge.admin import Administrator
from autoscaler.sge.prepare import Difference
from autoscaler.sge.qconf import read_attributes, replaced

KIND = "submission verifier"
NAME = "jsv"
FOLDER = "sge-autoscaler"
SHIPPED_MODIFICATIONS = "ac,h,i,e,o,j,M,N,p,w"
"""`jsv_allowed_mod` as shipped."""
ALL_MODIFICATIONS = (
    "a,ac,ar,A,binding,c_interval,c_occasion,ckpt,CMDNAME,cwd,dl,e,h,hold_jid,hold_jid_ad,i,j,js,l_hard,l_soft,m,M,"
    "masterq,N,notify,o,P,p,pe_min,pe_name,q_hard,q_soft,R,r,S,t,tc,v,w"
)
"""Everything that `qalter` may change: with a verifier, Grid Engine refuses all that is not named here, and `qalter -l`
would no longer work for users.
"""


@dataclass(frozen=True, slots=True)
class JsvFiles:
    """The verifier's place in a cell."""

    common: Path
    """SGE_ROOT/CELL/common."""
    cell: str
    """Distinguishes the cell from others."""

    @property
    def folder(self) -> Path:
        return self.common / FOLDER

    @property
    def script(self) -> Path:
        return self.folder / "verifier"

    @property
    def program(self) -> Path:
        return self.folder / "verifier.pyz"

    @property
    def file(self) -> Path:
        """The loop's file for it."""
        return self.folder / "admission.json"

    @property
    def before(self) -> Path:
        """The values of the global configuration before."""
        return self.folder / "before.json"

    @property
    def url(self) -> str:
        return f"script:{self.script}"

    @property
    def installed(self) -> bool:
        return self.script.exists()

    def script_text(self) -> str:
        """The script that the qmaster starts, with the possible Pythons."""
        pythons = dict.fromkeys((str(Path(sys.executable).resolve()), "/usr/bin/python3"))
        template = objects.templates("sge", trim_blocks=True).get_template("verifier.j2")
        return template.render(pythons=tuple(pythons), program=self.program, file=self.file, cell=self.cell)


def difference(administrator: Administrator, place: JsvFiles, program: bytes) -> Difference | None:
    """The changes that `install` would make in the global configuration, or in its files; None if there are none.

    An administrator's own verifier counts as a difference: the qmaster can use only one.
    """
    configuration = read_attributes(administrator.show("-sconf"))
    there, wanted = _values(configuration), _wanted(configuration, place)
    if there["jsv_url"] not in ("none", place.url):
        return Difference(KIND, NAME, _lines(there), _lines(wanted), ())
    if there == wanted and _current(place, program):
        return None
    return Difference(KIND, NAME, "", _lines(wanted | {"files": f"{place.script} {place.program}"}), ())


def install(administrator: Administrator, place: JsvFiles, program: bytes, saved: Path) -> None:
    """Install the files and make the qmaster use them. The earlier configuration is kept for `withdraw`.

    Raises GridEngineRefused, GridEngineNotObservable.
    """
    text = administrator.show("-sconf")
    configuration = read_attributes(text)
    try:
        place.folder.mkdir(mode=0o755, exist_ok=True)
        place.folder.chmod(0o755)
        before = _values(configuration)
        if before["jsv_url"] != place.url:
            _put(place.before, json.dumps(before).encode(), 0o644)
        _put(place.program, program, 0o644)
        _put(place.script, place.script_text().encode(), 0o755)
    except OSError as error:
        raise GridEngineRefused(f"cannot write {place.folder}: {error.strerror}; nothing was changed") from error
    _configure(administrator, text, _wanted(configuration, place), saved)


def withdraw(administrator: Administrator, place: JsvFiles, saved: Path) -> bool:
    """Restore the earlier configuration, and remove the files; False if the qmaster uses another verifier.

    Raises GridEngineRefused, GridEngineNotObservable.
    """
    text = administrator.show("-sconf")
    if read_attributes(text).get("jsv_url", "") != place.url:
        return False
    try:
        before = json.loads(place.before.read_text(encoding="utf-8"))
        values = {name: str(before[name]) for name in ("jsv_url", "jsv_allowed_mod")}
    except (OSError, ValueError, KeyError, TypeError):
        values = {"jsv_url": "none", "jsv_allowed_mod": SHIPPED_MODIFICATIONS}
    _configure(administrator, text, values, saved)
    shutil.rmtree(place.folder, ignore_errors=True)
    return True


@dataclass(frozen=True, slots=True)
class State:
    """The state of the qmaster's verifier."""

    script: str
    """Its path."""
    runs: bool
    """Whether the script exists and may be executed: else every submission is refused."""
    ours: bool
    current: bool = False
    """Whether it is of this version: else it accepts everything."""
    fresh: bool = False
    """Whether the loop has observed lately: else it accepts everything."""


def state(url: str, place: JsvFiles, program: bytes, *, oldest: float, now: float) -> State | None:
    """The result of submissions with this `jsv_url` ('': none). `oldest`: age in seconds from which the loop's file is
    stale.
    """
    # A jsv_url may name the user that the script runs as: `script:USER@/path`.
    script = url.partition(":")[2].rpartition("@")[2] if ":" in url else url
    if script in ("", "none"):
        return None
    runs, ours = os.access(script, os.X_OK), script == str(place.script)
    try:
        fresh = now - place.file.stat().st_mtime <= oldest
    except OSError:
        fresh = False
    return State(script, runs, ours, ours and _current(place, program), ours and fresh)


def _values(configuration: Mapping[str, str]) -> dict[str, str]:
    """The global configuration's values for verifiers; a long list is printed over several lines."""
    return {
        name: re.sub(r"[\s\\]+", "", configuration.get(name, "")) or "none" for name in ("jsv_url", "jsv_allowed_mod")
    }


def _wanted(configuration: Mapping[str, str], place: JsvFiles) -> dict[str, str]:
    chosen = _values(configuration)["jsv_allowed_mod"]
    allowed = ALL_MODIFICATIONS if chosen in ("none", SHIPPED_MODIFICATIONS) else chosen
    return {"jsv_url": place.url, "jsv_allowed_mod": allowed}


def _current(place: JsvFiles, program: bytes) -> bool:
    try:
        return place.program.read_bytes() == program and place.script.read_text() == place.script_text()
    except (OSError, UnicodeDecodeError):
        return False


def _configure(administrator: Administrator, text: str, values: Mapping[str, str], saved: Path) -> None:
    saved.mkdir(parents=True, exist_ok=True)
    (saved / "configuration-global.txt").write_text(text, encoding="utf-8")
    changed = replaced(text, values)
    # `qconf -Mconf` takes the file's name for the host's.
    with objects.as_file(changed, "global") as file:
        administrator.configure("-Mconf", str(file))


def _put(path: Path, content: bytes, mode: int) -> None:
    """Replace a file at once: a qmaster that starts it meanwhile finds the old one or the new one."""
    write_file(path.parent.resolve() / path.name, content, mode=mode)


def _lines(values: Mapping[str, str]) -> str:
    return "".join(f"{name} {value}\n" for name, value in values.items())
