"""The SGE_ROOT of a private cell: Debian's programs, a spool of its own, settings that make a cell lively.

Only files and the offline spool tools; nothing here needs a running qmaster. The Debian packages' own cell in
/var/lib/gridengine is read, never written. `hide` keeps programs and settings of this machine from the cell.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from autoscaler.errors import AutoscalerError
from autoscaler.process import Runner
from autoscaler.sge.objects import templates
from autoscaler.sge.qconf import replaced

PROGRAMS = Path("/usr/lib/gridengine")
INSTALLED = Path("/var/lib/gridengine")
SHARED = Path("/usr/share/gridengine")
MASTER = "master"
ADMIN = "sgeadmin"
TIMEOUT = 60.0
"""Seconds for one Grid Engine command on a very busy machine; idle they take 15 ms."""
LIVELY_SCHEDULER = {"schedule_interval": "0:0:2", "flush_submit_sec": "1", "flush_finish_sec": "1"}
LIVELY = {
    # Grid Engine runs no job of a user with a lower uid or gid; root's are 0.
    "min_uid": "0",
    "min_gid": "0",
    "load_report_time": "00:00:02",
    "max_unheard": "00:00:20",
    # A login shell would run root's own profile before every job, and leave the folders of killed ones.
    "login_shells": "NONE",
    # A job sees nothing of its execd's environment.
    "execd_params": "INHERIT_ENV=false",
    # With the shipped settings a job shows in qacct up to 15 s after its end.
    "reporting_params": "accounting=true reporting=false flush_time=00:00:01 accounting_flush_time=00:00:00 "
    "joblog=false sharelog=00:00:00",
}


class CellError(AutoscalerError):
    """A private cell could not be made or changed; the message carries Grid Engine's own words."""


def missing() -> str | None:
    """None if Grid Engine's programs are installed, else one line that says which is missing."""
    needed = [PROGRAMS / name for name in ("sge_qmaster", "sge_execd", "qstat", "spoolinit")]
    for path in (*needed, INSTALLED / "bin", SHARED / "default-configuration"):
        if not path.exists():
            return f"{path} is missing: install gridengine-master, gridengine-exec and gridengine-client (make setup)"
    return None


def environment(root: Path, home: Path) -> dict[str, str]:
    """The whole environment of a process in the cell. Ports are the usual ones: the network is the cell's own."""
    folders = (Path(sys.executable).parent, PROGRAMS, root / "bin", root / "utilbin")
    return {
        "SGE_ROOT": str(root),
        "SGE_CELL": "default",
        "SGE_QMASTER_PORT": "6444",
        "SGE_EXECD_PORT": "6445",
        "SGE_CLUSTER_NAME": "private",
        "PATH": ":".join([*map(str, folders), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]),
        "LD_LIBRARY_PATH": str(PROGRAMS),
        "HOME": str(home),
        # Killed processes of the cell leave nothing on the machine.
        "TMPDIR": str(home),
        "USER": "root",
        "LOGNAME": "root",
        "LANG": "C.UTF-8",
    }


def render(template: str, **values: object) -> str:
    """A Grid Engine object from `conf/cell/`. Raises jinja2.UndefinedError for a value that is not given."""
    return templates("cell").get_template(f"{template}.j2").render(values)


def make_root(root: Path, runner: Runner, *, spool: Path, host: str | None, changes: Mapping[str, str]) -> None:
    """Lay out SGE_ROOT and initialise its spool, as `init_cluster` of the Debian package does.

    `runner` runs with `environment(root, …)`. `spool` is where every execution host keeps its own spool; `host` becomes
    a submit and admin host (None: the caller that prepares the master does that); `changes` go into the global
    configuration on top of LIVELY. Raises CellError.
    """
    common, work = root / "default" / "common", root / "default" / "spool"
    for folder in (common, work / "db", work / "qmaster", root / "made"):
        folder.mkdir(parents=True)
    for links in ("bin", "lib", "utilbin"):
        shutil.copytree(INSTALLED / links, root / links, symlinks=True)
    (root / "util").symlink_to(SHARED / "util")
    (common / "bootstrap").write_text(render("bootstrap", root=root))
    (common / "act_qmaster").write_text(f"{MASTER}\n")
    shipped = (SHARED / "default-configuration").read_text()
    made = root / "made"
    (made / "global").write_text(replaced(shipped, {**LIVELY, "execd_spool_dir": str(spool), **changes}))
    (made / "hosts").mkdir()
    if host is not None:
        (made / "hosts" / host).write_text(f"hostname {host}\n")
    resources = SHARED / "util" / "resources"
    done(runner, "spoolinit", "berkeleydb", "libspoolb", str(work / "db"), "init")
    for what, source in (
        ("configuration", made / "global"),
        ("complexes", resources / "centry"),
        ("usersets", resources / "usersets"),
        ("submithosts", made / "hosts"),
        ("adminhosts", made / "hosts"),
    ):
        done(runner, "spooldefaults.bin", what, str(source))
    # Unless its admin user is a manager, the scheduler is denied, and no job ever starts.
    done(runner, "spooldefaults.bin", "managers", "root", ADMIN)
    done(runner, "chown", "-R", f"{ADMIN}:{ADMIN}", str(root))


def done(runner: Runner, *argv: str, stdin: bytes = b"") -> str:
    """Run a command that must succeed; returns its output. Raises CellError with Grid Engine's words."""
    ended = runner(argv, timeout=TIMEOUT, stdin=stdin)
    printed = ended.stdout.decode("utf-8", "replace")
    if ended.returncode != 0:
        output = (printed + ended.stderr.decode("utf-8", "replace")).strip()
        raise CellError(f"{' '.join(argv)}: exit status {ended.returncode}: {output}")
    return printed


HIDDEN = tuple(map(Path, ("/usr/local/bin", "/usr/local/sbin", "/opt/cycle", "/etc/sge-autoscaler", "/etc/profile.d")))
"""Folders that are empty in a cell."""
EMPTIED = tuple(map(Path, ("/etc/resolv.conf", "/etc/environment")))
"""Files that are empty in a cell."""
_OURS = ("python", "sge-autoscaler")
"""Name prefixes of programs that the cell itself needs, if Python was installed into such a folder."""


def hide(runner: Runner, aside: Path) -> None:
    """Hide them from the tree that `runner` runs in, and from all hosts that it will have.

    `aside` is a folder for what has to be kept; made if need be. Raises CellError.
    """
    lines = ["set -eu"]
    for number, folder in enumerate(folder for folder in HIDDEN if folder.is_dir()):
        lines += _hiding(folder, aside / f"folder-{number}")
    lines += [f"mount --bind /dev/null {file}" for file in EMPTIED if file.is_file()]
    done(runner, "sh", "-c", "\n".join(lines))


def _hiding(folder: Path, own: Path) -> list[str]:
    """Commands that leave `folder` empty except for Python, if it contains this Python."""
    kept = sorted(each for each in folder.iterdir() if each.name.startswith(_OURS)) if _has_python(folder) else []
    lines = []
    if kept:
        lines += [f"mkdir -p {shlex.quote(str(own))}", f"mount --bind {folder} {shlex.quote(str(own))}"]
    lines.append(f"mount -t tmpfs -o mode=0755 hidden {folder}")
    for each in kept:
        there, here = shlex.quote(str(own / each.name)), shlex.quote(str(each))
        lines.append(f"cp -P {there} {here}" if each.is_symlink() else f": >{here}; mount --bind {there} {here}")
    return lines


def _has_python(folder: Path) -> bool:
    return folder in (Path(sys.executable).parent, Path(sys.base_prefix) / "bin")
