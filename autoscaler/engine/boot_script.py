"""The script that a worker runs at its first boot, rendered from `conf/worker/`.

It contains every value once, quoted for the shell; the rest of the templates is the same for all cells. A cloud shows a
machine's user data and tags to everybody who may describe it, and to every job on it. So they contain one secret only,
the key with which the machines of one order may ask to stop: it allows to stop only workers that demand does not need.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import cache
from math import ceil
from typing import TYPE_CHECKING

from autoscaler import worker_configuration
from autoscaler.errors import SettingsError
from autoscaler.sge.notices import COMPLEX
from autoscaler.sge.objects import templates

if TYPE_CHECKING:
    import jinja2

LOOK_EVERY = 30
"""Longest time in seconds between two checks of a worker on itself."""
OWN_ENDINGS = ("azure", "cyclecloud")
"""Providers whose machines still cost money after a shutdown: they have to end in another way."""
WITH_METADATA = ("aws", "azure")
"""Providers whose metadata contains the name that the provider lists the machine under, and interruption notices."""
ORDER_IN_METADATA = ("aws",)
"""Providers whose metadata gives machines the values of their own order (its id, its key, their group). One boot script
then serves all orders of a node array; an account holds few launch templates.
"""
LOAD_SENSOR = "/usr/local/sbin/sge-worker-notice"
"""Where the script puts the load sensor that reports interruption notices."""
_COMMENT = re.compile(r"^[ \t]*#(?!!).*\n", re.MULTILINE)
_OF_LINES = ("bootstrap", "configuration", "hook")
"""Values of more than one line: text that is only ever written to a file."""


@dataclass(frozen=True, slots=True)
class WorkerBoot:
    """The values that the workers of one node array need. Durations in seconds."""

    sge_root: str
    cell: str
    master: str
    master_address: str
    """'' where the master's name only resolves to the master itself; the worker's DNS has to know it then."""
    qmaster_port: int
    execd_port: int
    bootstrap: str
    """The text of the cell's `bootstrap` file; '' if it cannot be read: the worker must then have its own."""
    provider: str
    join_within: float
    """Seconds without any connection to qmaster after which a new machine ends itself."""
    lease: float
    longest_lease: float
    """The lease of a worker on which jobs run; never shorter than `lease`."""
    mount: str = ""
    """NFS export that is mounted at `sge_root` (`server:/path`); '' for none."""
    install: bool = True
    """Whether the distribution's package is installed where there is no sge_execd."""
    hook: str = ""
    """The operator's own script, which runs before the worker joins; '' for none."""
    stays_after: float = 10
    """An sge_execd that has had a connection to qmaster for this many seconds has joined."""
    configuration: str = ""
    """The worker configuration, as `worker_configuration.write` writes it."""
    stop_url: str = ""
    """The address at which it may ask to stop, without its own token, and without the order if the metadata has that;
    '' if no listener runs.
    """
    stop_key: str = ""
    """The key from which the machines of its order make their tokens; '' if the metadata has it."""

    def script(self) -> str:
        """The whole script, for any POSIX shell. Raises SettingsError for a value of more than one line."""
        return self._rendered("boot.sh.j2")

    def configuration_script(self) -> str:
        """The script of a worker that its own image enrols: it only gets its worker configuration."""
        return self._rendered("told.sh.j2")

    def _rendered(self, template: str) -> str:
        for name, value in asdict(self).items():
            if isinstance(value, str) and name not in _OF_LINES and not value.isprintable():
                raise SettingsError(f"{name} of a worker's boot script cannot be {value!r}")
        values = asdict(self) | {
            "join_within": ceil(self.join_within),
            "lease": ceil(self.lease),
            "longest_lease": ceil(max(self.lease, self.longest_lease)),
            "stays_after": ceil(self.stays_after),
            "look_every": max(1, min(LOOK_EVERY, int(self.lease / 20))),
            "instance_id": worker_configuration.INSTANCE_ID,
            "node_name": worker_configuration.NODE_NAME,
            "stop_callback": worker_configuration.STOP_CALLBACK,
            "file": worker_configuration.FILE,
            "notice": COMPLEX,
            "sensor": LOAD_SENSOR,
            "ending": self.provider if self.provider in OWN_ENDINGS else "",
            "group_id": worker_configuration.GROUP_ID,
            "order_in_metadata": self.provider in ORDER_IN_METADATA,
            "naming": self.provider if self.provider in WITH_METADATA else "",
        }
        return _templates().get_template(template).render(values)


@cache
def _templates() -> jinja2.Environment:
    from jinja2.ext import Extension  # here: a cell that launches nothing does not need it

    class WithoutComments(Extension):
        """User data is small: lines that only explain are left out. Values are not part of the source, so they stay
        whole.
        """

        def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
            return _COMMENT.sub("", source)

    return templates("worker", trim_blocks=True, extensions=(WithoutComments,))
