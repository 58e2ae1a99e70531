"""Root's commands act as the account that the service runs as: what they write belongs to that account, and no command
does more than the service may.
"""

from __future__ import annotations

import os
import pwd

from autoscaler.commands.context import Invocation
from autoscaler.errors import SettingsError


def become_owner_of_state(invocation: Invocation) -> None:
    """As root: become the owner of the state directory, for good, where that is another user. Raises nothing: wrong
    settings are told by the command itself.
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
    os.setuid(found.st_uid)
