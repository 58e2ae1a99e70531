"""`sge-autoscaler jetpack`: a module and a command of that name for scripts that cannot be changed.

Neither hides another jetpack: Python finds the module last, and the command calls any other one instead.
"""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import click

from autoscaler.commands._output import echo, json_option, print_result
from autoscaler.errors import SettingsError

MARK = "sge-autoscaler jetpack --install"
_START = (
    f"# {MARK}\n"
    "import importlib.util; importlib.util.find_spec('autoscaler') and "
    "__import__('autoscaler.jetpack_fallback', fromlist=['install']).install()\n"
)
"""A line that Python runs when it starts; it does nothing if the autoscaler is not installed any more."""
_COMMAND = f"""#!/bin/sh
# {MARK}
# Any other jetpack goes before.
IFS=:
for place in $PATH /opt/cycle/jetpack/bin; do
    other=$place/jetpack
    if [ -f "$other" ] && [ -x "$other" ] && ! grep -qs sge-autoscaler "$other"; then
        unset IFS
        exec "$other" "$@"
    fi
done
unset IFS
case "${{1-}}" in
    autoscale) shift && exec AUTOSCALER autoscale "$@" ;;
    config)
        shift
        [ $# -gt 0 ] || exec AUTOSCALER worker config list
        exec AUTOSCALER worker config get "$@" ;;
esac
echo "usage: jetpack autoscale --name=ARRAY --corecount=N | jetpack config [KEY [DEFAULT]]" >&2
exit 2
"""


@dataclass(frozen=True, slots=True)
class InstallDirectories:
    """Directories of a Python environment for modules and commands."""

    modules: Path
    commands: Path

    @classmethod
    def of_this_python(cls) -> InstallDirectories:
        return cls(Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("scripts")))

    @property
    def start(self) -> Path:
        return self.modules / "sge_autoscaler_jetpack.pth"

    @property
    def command(self) -> Path:
        return self.commands / "jetpack"

    def install(self, autoscaler: str) -> list[Path]:
        """Write both files; `autoscaler` is the command to run. Raises SettingsError if a file is not ours."""
        files = {self.start: _START, self.command: _COMMAND.replace("AUTOSCALER", autoscaler)}
        for path in files:
            _ours(path)
        try:
            for path, text in files.items():
                path.write_text(text, encoding="utf-8")
            self.command.chmod(0o755)
        except OSError as error:
            raise SettingsError(f"cannot write {error.filename}: {error.strerror}") from error
        return list(files)

    def remove(self) -> list[Path]:
        """Remove the installed files and nothing else; return them. Raises SettingsError."""
        there = [path for path in (self.start, self.command) if _ours(path)]
        try:
            for path in there:
                path.unlink()
        except OSError as error:
            raise SettingsError(f"cannot remove {error.filename}: {error.strerror}") from error
        return there


@click.command("jetpack")
@click.option("--install", "change", flag_value="install", help="Put both into the environment of this Python.")
@click.option("--remove", "change", flag_value="remove", help="Remove what --install installed.")
@json_option
def command(change: str | None, as_json: bool) -> None:
    """Install `import jetpack.autoscale`, `jetpack autoscale` and `jetpack config` where nothing else provides them.

    If you can change a script, write `from autoscaler import jetpack` in it instead.
    """
    place = InstallDirectories.of_this_python()
    if change is None:
        raise click.UsageError("give --install or --remove")
    if change == "install":
        paths, verb = place.install(_quoted(Path(sys.executable).parent / "sge-autoscaler")), "wrote"
    else:
        paths, verb = place.remove(), "removed"
    lines = [f"{verb} {path}" for path in paths] or ["nothing was installed"]
    if as_json:
        print_result("; ".join(lines), as_json=True, done=bool(paths), files=list(map(str, paths)))
    for line in () if as_json else lines:
        echo(line)


def _ours(path: Path) -> bool:
    """Whether our file is there. Raises SettingsError for somebody else's file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    if MARK not in text:
        raise SettingsError(f"{path} is another jetpack: left alone")
    return True


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"
