"""The files that settings name and that the autoscaler relies on: a user who may write them controls it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoscaler import CONFIG_ENV
from autoscaler.answer_client import OF_ROOT
from autoscaler.settings.loading import Settings
from autoscaler.strict_modes import GROUP_ENV, Exposure, exposure, owner_name

_SECRET = re.compile(r"TOKEN|PASSWORD|SECRET|CREDENTIAL")
_REFERENCE = "file:"


@dataclass(frozen=True, slots=True)
class GuardedFile:
    """A file. `private`: others must not read it either."""

    what: str
    path: Path
    private: bool = False
    of_environment: bool = False
    """Whether the trusted group is read from the environment only."""
    user: str | None = None
    """A user who may own it, besides root and our own."""

    def exposure(self, settings: Settings, environ: Mapping[str, str]) -> Exposure | None:
        """The problem with its mode, owner or place; None: there is none. Raises SettingsError."""
        group = (environ.get(GROUP_ENV) or None) if self.of_environment else settings.process.trusted_group
        return exposure(self.path, group=group, private=self.private, user=self.user)


def guarded_files(settings: Settings, environ: Mapping[str, str]) -> Iterator[GuardedFile]:
    """All files that settings name, whether they exist or not; without those in the state directory."""
    process = settings.process
    if environ.get(CONFIG_ENV):
        yield GuardedFile("the settings file", Path(environ[CONFIG_ENV]), of_environment=True)
    named = (
        ("the file of rules", process.rules, False),
        ("the file of VM sizes", process.vm_sizes, False),
        ("the script of workers", process.worker_bootstrap, False),
        ("the password file", process.http_passwords, True),
        ("the certificate", process.http_certificate, False),
        ("the certificate's key", process.http_key, True),
        ("the file of notification URLs", process.notifications, True),
    )
    yield from (GuardedFile(what, path, private) for what, path, private in named if path is not None)
    if process.socket is not None:
        yield GuardedFile("the directory of the socket", process.socket.parent, user=owner_name(OF_ROOT))
    if process.munge is not None:
        yield GuardedFile("the socket of MUNGE", process.munge, user="munge")
    for queue in settings.queues.values():
        if queue.health_check:
            yield GuardedFile("the health check", Path(shlex.split(queue.health_check)[0]))
        yield GuardedFile("the directory of health checks", queue.health_checks)
        if queue.health_checks.is_dir():
            checks = sorted(queue.health_checks.iterdir())
            yield from (GuardedFile("the health check", path) for path in checks)
    for name, value in sorted(settings.for_provider(environ).items()):
        if name.startswith("CP_CAP_") and value.startswith(_REFERENCE):
            path = Path(value.removeprefix(_REFERENCE))
            yield GuardedFile(f"the file of {name}", path, private=bool(_SECRET.search(name)))


def exposed_files(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """A sentence for each of these files that others could change or read, with the command that corrects it. Raises
    SettingsError if the trusted group does not exist.
    """
    found = dict.fromkeys((each, each.exposure(settings, environ)) for each in guarded_files(settings, environ))
    return [f"{each.what}: {exposed}" for each, exposed in found if exposed is not None]
