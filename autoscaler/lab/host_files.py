"""What of the machine's own files a private cell does not see: programs and settings that an administrator put there.

Hosts of a cell share the machine's files. A program in /usr/local/bin, CycleCloud's jetpack or a worker's settings in
/etc would be found there as if each host of the cell had them; a resolver would be waited for that no host reaches.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from autoscaler.lab import private_root
from autoscaler.process import Runner

HIDDEN = tuple(map(Path, ("/usr/local/bin", "/usr/local/sbin", "/opt/cycle", "/etc/sge-autoscaler", "/etc/profile.d")))
"""Folders that are empty in a cell."""
EMPTIED = tuple(map(Path, ("/etc/resolv.conf", "/etc/environment")))
"""Files that are empty in a cell."""
_OURS = ("python", "sge-autoscaler")
"""How the names of programs begin that the cell itself needs, where Python was installed into such a folder."""


def hide(runner: Runner, aside: Path) -> None:
    """Hide them from the tree that `runner` runs in, and from all hosts that it will have.

    `aside` is a folder for what has to be kept; made if need be. Raises CellError.
    """
    lines = ["set -eu"]
    for number, folder in enumerate(folder for folder in HIDDEN if folder.is_dir()):
        lines += _hiding(folder, aside / f"folder-{number}")
    lines += [f"mount --bind /dev/null {file}" for file in EMPTIED if file.is_file()]
    private_root.done(runner, "sh", "-c", "\n".join(lines))


def _hiding(folder: Path, own: Path) -> list[str]:
    """Commands that leave `folder` empty but for Python, where this is Python's."""
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
