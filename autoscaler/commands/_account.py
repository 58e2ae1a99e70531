"""Root's commands act as the account of the service: their files belong to that account, and no command does more than
the service may.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterable

import autoscaler
from autoscaler.commands.context import Invocation
from autoscaler.errors import SettingsError
from autoscaler.process import Runner
from autoscaler.strict_modes import user_name


def become_owner_of_state(invocation: Invocation) -> None:
    """As root: become the owner of the state directory for good, if that is another user. The command itself reports
    wrong settings. Raises SettingsError if that user cannot read this program.
    """
    try:
        found = invocation.state_directory.stat()
    except (OSError, SettingsError):
        return
    if found.st_uid == 0:
        return
    try:
        account = pwd.getpwuid(found.st_uid)
    except KeyError:
        os.setgroups([])
        os.setgid(found.st_gid)
    else:
        os.initgroups(account.pw_name, account.pw_gid)
        os.setgid(account.pw_gid)
        os.environ["HOME"] = account.pw_dir
    # Last: without root a process cannot change its groups.
    os.setuid(found.st_uid)
    closed = next((path for path in program_files() if not os.access(path, os.R_OK)), None)
    if closed is not None:
        raise SettingsError(cannot_read(user_name(found.st_uid), closed))


def program_files() -> tuple[str, ...]:
    """Files that every user of this program must be able to read: Python, its library, installed packages, our code."""
    import click

    return tuple(dict.fromkeys((sys.executable, os.__file__, click.__file__, autoscaler.__file__)))


def cannot_read(user: str, path: str) -> str:
    return (
        f"the account {user} cannot read {path}, which this program needs: install it where every user may read, "
        "as /opt, and not below a home"
    )


def unreadable_to(account: pwd.struct_passwd, paths: Iterable[str], runner: Runner) -> str | None:
    """As root: the first of these that an account cannot read; None: it reads all of them."""
    from autoscaler.engine.job_owners import as_owner

    checks = ((path, as_owner(account, os.geteuid(), ("test", "-r", path))) for path in paths)
    return next((path for path, argv in checks if argv and runner(argv, timeout=60).returncode), None)
