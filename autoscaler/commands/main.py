"""`sge-autoscaler`: finds its commands by module name, loads the one that is called, and ends with one exit code.

A command is a module of this folder that exports `command`, or a function of `overriding`. A command imports its own
needs when it runs, so that every command starts fast. An AutoscalerError becomes one line
and the exit code of its class (`autoscaler.errors`); any other exception is a defect and shows its traceback.
"""

from __future__ import annotations

import ast
import errno
import importlib
import os
import pkgutil
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path

import click

import autoscaler

try:
    from autoscaler import CONFIG_ENV, commands
except ImportError:
    sys.exit(
        f"sge-autoscaler: {autoscaler.__file__ or list(autoscaler.__path__)} is not ours: another package has our "
        "import name and hides or has overwritten it; uninstall that one (`pip list`), then install sge-autoscaler "
        "again, or give it an environment of its own"
    )
from autoscaler.commands._output import echo
from autoscaler.errors import MAKE_ROOM, NO_ROOM, WRITABLE, AutoscalerError, StateNotKept
from autoscaler.garbage import collect_rarely
from autoscaler.strict_modes import exposure

NAME = "sge-autoscaler"
INTERRUPTED = 130
_AS_ROOT = frozenset(
    {
        "catalog",
        "cell",
        "completion",
        "config",
        "convert",
        "demo",
        "hosts",
        "init",
        "jetpack",
        "platform",
        "record",
        "support",
        "worker",
    }
)
"""Commands that do not write into the state directory, or write where only root may."""
ANSWERED = frozenset({"cost", "events", "explain", "history", "jobs", "status", "top", "workers"})
"""Commands that the running autoscaler answers. Only if none answers do they become another user
(`_answers.print_answer`).
"""
NOT_YOURS = "you may not read it: ask root, or the user who runs the autoscaler"
_OVERRIDING = frozenset({"drain", "keep", "log-level", "pause", "resume", "retry"})
"""Commands that are functions of `overriding`, by their names."""
_NO_COMMANDS = frozenset({"main", "context", "overriding", "serving"})


class Commands(click.Group):
    """A group whose commands are modules: `sge-autoscaler once` imports `once` and nothing else."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = {module.name for module in pkgutil.iter_modules(commands.__path__)} - _NO_COMMANDS
        return sorted(_OVERRIDING | {name.replace("_", "-") for name in found if not name.startswith("_")})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module, function = _place(cmd_name)
        command = getattr(importlib.import_module(f"{commands.__name__}.{module}"), function, None)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with a suggestion."""
        name = args[0] if args else ""
        if not ctx.resilient_parsing and self.get_command(ctx, name) is None and not name.startswith("-"):
            import difflib

            close = difflib.get_close_matches(name, self.list_commands(ctx), 1, cutoff=0.6)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {name!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click does it, without importing any command."""
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl([(name, described(name).get_short_help_str(width)) for name in names])


def _place(command: str) -> tuple[str, str]:
    """Module and function of a command."""
    name = command.replace("-", "_")
    return ("overriding", name) if command in _OVERRIDING else (name, "command")


def described(name: str) -> click.Command:
    """A command with its help alone, from the text of its module."""
    module, function = _place(name)
    tree = ast.parse((Path(commands.__path__[0]) / f"{module}.py").read_text(encoding="utf-8"))
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    return click.Command(name, help=next((ast.get_docstring(node) for node in found), None))


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 failed or refused; 2 usage or settings; 3 not found; 4 no answer from Grid Engine, "
    "provider or autoscaler; 5 another autoscaler serves this cell; 6 stopped, but an ordered machine may still come; "
    "7 the state cannot be kept; 130 Ctrl-C.",
)
@click.version_option(package_name=NAME, prog_name=NAME)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"Settings file; the same as {CONFIG_ENV} in the environment.",
)
@click.pass_context
def cli(context: click.Context, config: Path | None) -> None:
    """Rent machines for the waiting jobs of a Grid Engine, and give them back when they are idle."""
    if config is not None:
        os.environ[CONFIG_ENV] = str(config)  # so that every reader of settings, in children too, uses the same file
    from autoscaler.commands.context import Invocation

    context.obj = Invocation(os.environ)
    if os.geteuid() == 0 and context.invoked_subcommand not in _AS_ROOT | ANSWERED:
        from autoscaler.commands._account import become_owner_of_state

        become_owner_of_state(context.obj)


def drop_exposed_temporary_directory(environ: MutableMapping[str, str]) -> None:
    """Make temporary files in /tmp if those whom `TMPDIR` leads to (`sudo -E` keeps it) could exchange them: a file for
    `qconf` would then be theirs.
    """
    for name in ("TMPDIR", "TEMP", "TMP"):
        if (place := environ.get(name)) and exposure(Path(place)) is not None:
            del environ[name]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; the only place where errors become exit codes."""
    collect_rarely()
    os.umask(os.umask(0o077) | 0o022)  # a service or container without one would make files that everybody may write
    drop_exposed_temporary_directory(os.environ)
    try:
        result = cli.main(args=None if arguments is None else list(arguments), prog_name=NAME, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except AutoscalerError as error:
        echo(f"{NAME}: {error}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except PermissionError as error:
        echo(f"{NAME}: {error.filename}: {NOT_YOURS}", err=True)
        return AutoscalerError.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # `sge-autoscaler jobs | head`: the reader has closed the pipe
        # At its end Python flushes the output, which would fail again at the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        where = f"{error.filename}: " if error.filename else ""
        remedy = WRITABLE if error.errno == errno.EROFS else f"{MAKE_ROOM}, and try again"
        echo(f"{NAME}: {where}{error.strerror}: {remedy}", err=True)
        return StateNotKept.exit_code


if __name__ == "__main__":
    sys.exit(main())
