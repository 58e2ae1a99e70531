"""Shared by commands: settings, cell, store and provider, built from the environment. Decides nothing.

Each part is imported at its first use: most commands need few of them.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date, tzinfo
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from autoscaler.commands._output import echo
from autoscaler.errors import SettingsError, StateNotKept
from autoscaler.strict_modes import ours, user_name

if TYPE_CHECKING:
    from autoscaler.constraints.rule_files import RuleFiles
    from autoscaler.core.policy import Policy
    from autoscaler.process import Runner
    from autoscaler.providers.interface import Provider
    from autoscaler.settings import Settings
    from autoscaler.store.lock import CellKey, Holder
    from autoscaler.store.store import Store

USUAL_ROOTS = (Path("/var/lib/gridengine"), Path("/opt/sge"))
"""Where SGE_ROOT may be if it is not set: of Debian's packages, and of an installation by hand."""
OF_SERVICE = Path("/var/lib/sge-autoscaler")
"""The state of root's autoscaler, or of the account for which systemd made this directory."""
USUAL_PORTS = {"sge_qmaster": 6444, "sge_execd": 6445}


class Invocation:
    """One call of the command line; it makes each part at its first use."""

    def __init__(self, environ: Mapping[str, str], *, imports_provider: bool = True) -> None:
        """`imports_provider`: False in a process that must not be able to use the cloud's credentials."""
        self.environ = environ
        self._imports_provider = imports_provider
        self._noted: set[str] = set()
        self.silent = False
        """Whether the running autoscaler did not answer."""

    @cached_property
    def zone(self) -> tzinfo:
        """The zone of the times that Grid Engine prints: this machine's."""
        from autoscaler.local_zone import LocalZone

        return LocalZone()

    def note(self, message: str) -> None:
        """Print a message on standard error, once for each text."""
        if message not in self._noted:
            self._noted.add(message)
            echo(message, err=True)

    @cached_property
    def settings(self) -> Settings:
        """Raises SettingsError."""
        return self.read_settings({})

    @cached_property
    def settings_in_force(self) -> Settings:
        """The settings, completed by the preferences of the provider's platform. Raises SettingsError."""
        return with_platform(self.settings, self.read_settings, self.environ)

    def read_settings(self, platform: Mapping[str, str]) -> Settings:
        """The settings read anew, completed by a platform's preferences. Raises SettingsError."""
        from autoscaler.providers.registry import known_prefixes
        from autoscaler.settings import load_settings

        of_providers = known_prefixes if self._imports_provider else lambda _: ("CP_CAP_",)
        return load_settings(self.environ, known_prefixes=of_providers, platform=platform)

    @cached_property
    def cell(self) -> CellKey:
        """The Grid Engine cell of this process. Raises SettingsError if there is none."""
        from autoscaler.store.lock import CellKey

        name = self.environ.get("SGE_CELL") or "default"
        root = self._root(name)
        return CellKey(_master(root / name / "common"), self.port("sge_qmaster"), name, str(root.resolve()))

    @property
    def common(self) -> Path:
        """SGE_ROOT/CELL/common."""
        return Path(self.cell.root) / self.cell.cell / "common"

    def port(self, service: str) -> int:
        """The port of `sge_qmaster` or `sge_execd`, found as Grid Engine finds it: environment, then services."""
        given = self.environ.get(f"{service.upper()}_PORT", "")
        if given.isdecimal():
            return int(given)
        try:
            return socket.getservbyname(service, "tcp")
        except OSError:
            return USUAL_PORTS[service]

    @cached_property
    def policy(self) -> Policy:
        return self.settings_in_force.policy(master=self.cell.master, currency=self.currency())

    @cached_property
    def runner(self) -> Runner:
        """Runs Grid Engine's commands; read-only in a dry run."""
        from autoscaler.process import ReadOnlyRunner, SystemRunner

        return ReadOnlyRunner(SystemRunner()) if self.settings.process.dry_run else SystemRunner()

    @cached_property
    def running(self) -> Holder | None:
        """The autoscaler that serves this cell on this machine, with any settings; None: there is none."""
        from autoscaler.store.lock import running

        return running(self.cell)

    @cached_property
    def settings_of_running(self) -> Mapping[str, str] | None:
        """The settings of the running autoscaler, without secrets: from its socket, else from its state. None: none
        runs, or they cannot be read.
        """
        from autoscaler.answer_client import Refused
        from autoscaler.jetpack.service import AutoscaleError, Service

        who = self.running
        if who is None:
            return None
        if who.socket and not self.silent:
            with contextlib.suppress(AutoscaleError):
                answer = Service(who.socket).call("GET", "/settings")
                return {name: str(value) for name, value in answer.items()}
        with contextlib.suppress(Refused, SettingsError, StateNotKept, PermissionError):
            if self.store_file.exists():
                with self.store() as store:
                    return store.service_settings.load()
        return None

    @cached_property
    def as_running(self) -> Invocation:
        """The same invocation with the settings of the running autoscaler; itself if there are none."""
        from autoscaler.settings.sharing import with_settings

        shared = self.settings_of_running
        return Invocation(with_settings(self.environ, shared)) if shared else self

    @property
    def state_directory(self) -> Path:
        """The state directory of the running autoscaler; if none runs, that of our own settings."""
        if self.running is not None and self.running.state:
            return Path(self.running.state)
        if self.settings.process.work_directory is not None:
            return self.settings.process.work_directory
        if os.geteuid() == 0 or ours(OF_SERVICE):
            return OF_SERVICE
        home = self.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        return Path(home) / "sge-autoscaler"

    @property
    def store_file(self) -> Path:
        return self.state_directory / f"{self.cell.slug}.sqlite"

    @property
    def writes_state(self) -> bool:
        """Whether this user may write the state of the running autoscaler, if one runs."""
        who = self.running
        return who is None or not who.state or os.access(who.state, os.W_OK | os.X_OK)

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """This cell's store, made if there is none. Raises SettingsError, Refused if this user may not write it."""
        from autoscaler.answer_client import Refused
        from autoscaler.store.database import Role
        from autoscaler.store.store import Store

        who = self.running
        if who is not None and not self.writes_state:
            raise Refused(
                f"the autoscaler of this cell (process {who.pid}) keeps its state in {who.state}, which {self.who} "
                "may not write: run this command as the user of that process"
            )
        store = Store.open(self.store_file, migrate=who is None)
        if who is not None:
            store.database.role = Role.GUEST
        try:
            yield store
        finally:
            store.close()

    def tag(self, *, make: bool) -> str:
        """The tag of this cell's machines; `make`: write a new one beside the cell's files if there is none."""
        from autoscaler.store.identity import cell_tag

        return self.settings.process.tag or cell_tag(self.cell, self.common, make=make)

    def provider(self, *, make_tag: bool = False) -> Provider:
        """The chosen provider. Raises SettingsError."""
        assert self._imports_provider, "this process makes no provider"
        from autoscaler.providers.registry import load, none_chosen

        name = self.settings.process.provider
        if name is None:
            raise none_chosen()
        return load(name, self.settings.for_provider(self.environ), self.tag(make=make_tag))

    def currency(self) -> str:
        """The currency of the chosen provider's prices, without asking its cloud."""
        from autoscaler.providers.registry import currency

        name = self.settings.process.provider
        try:
            chosen = self.settings.process.currency
            return chosen or ("USD" if name is None else currency(name, self.settings.for_provider(self.environ)))
        except SettingsError:
            return "USD"  # reported when the provider is made

    def oldest_price(self) -> date | None:
        """The date of the oldest price that the chosen provider uses, without asking its cloud."""
        from autoscaler.providers.registry import oldest_price

        name = self.settings.process.provider
        try:
            return None if name is None else oldest_price(name, self.settings.for_provider(self.environ))
        except SettingsError:
            return None  # reported when the provider is made

    def rule_files(self, provider: Provider) -> RuleFiles:
        """The rules and VM sizes that are set. Raises SettingsError naming file and place."""
        from autoscaler.constraints.rule_files import RuleFiles
        from autoscaler.providers.interface import HasLocation

        process = self.settings_in_force.process
        location = provider.location if isinstance(provider, HasLocation) else ""
        return RuleFiles.load(process.rules, process.vm_sizes, location=location, group=process.trusted_group)

    @property
    def who(self) -> str:
        """The person who runs the command, also behind sudo."""
        behind_sudo = self.environ.get("SUDO_USER") if os.geteuid() == 0 else None
        return behind_sudo or user_name(os.geteuid())

    def _root(self, cell: str) -> Path:
        given = self.environ.get("SGE_ROOT")
        candidates = (Path(given),) if given else USUAL_ROOTS
        for root in candidates:
            if (root / cell / "common" / "act_qmaster").exists():
                return root
        raise SettingsError(
            f"no Grid Engine cell {cell!r} in {' or '.join(map(str, candidates))}: "
            "set SGE_ROOT and SGE_CELL as the cell's settings.sh does"
        )


def with_platform(
    settings: Settings, load_again: Callable[[Mapping[str, str]], Settings], environ: Mapping[str, str]
) -> Settings:
    """The settings, read again with the preferences of the provider's platform. If it does not answer, they stay as
    they are, with a warning.
    """
    from autoscaler.providers.interface import ProviderError
    from autoscaler.providers.registry import platform_defaults

    provider = settings.process.provider
    if provider is None:
        return settings
    try:
        preferences = platform_defaults(provider, settings.for_provider(environ))
    except SettingsError:
        return settings  # reported when the provider is made
    except ProviderError as error:
        warning = f"the platform's preferences cannot be read, so defaults replace them: {error}"
        return replace(settings, warnings=(*settings.warnings, warning))
    return load_again(preferences) if preferences else settings


def _master(common: Path) -> str:
    """The qmaster's host name as Grid Engine prints it: without its domain if `ignore_fqdn` is true."""
    try:
        name = (common / "act_qmaster").read_text(encoding="utf-8").strip().lower()
        bootstrap = (common / "bootstrap").read_text(encoding="utf-8").lower().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the cell's files in {common}: {error}") from error
    ignores_domain = any(line.split() in (["ignore_fqdn", "true"], ["ignore_fqdn", "1"]) for line in bootstrap)
    return name.partition(".")[0] if ignores_domain else name
