"""Grid Engine objects as texts: templates of `conf/sge/` filled in, and the names that they may contain.

A name with a newline, comma, bracket or space in it would be read as a further attribute or host, so every name is
checked where it enters, before any command is started.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from autoscaler.errors import GridEngineRefused

if TYPE_CHECKING:
    import jinja2
    from jinja2.ext import Extension


class UnusableName(GridEngineRefused):
    """A name or value that Grid Engine's notation cannot express; Grid Engine was not called."""


_FORMS = {
    "host": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*"),
    "queue": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"),
    "host group": re.compile(r"@[A-Za-z0-9_][A-Za-z0-9_.+-]*"),
    "parallel environment": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"),
    "complex": re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*"),
    "value of a complex": re.compile(r"[A-Za-z0-9_.:/+-]+(\([A-Za-z0-9_.:/+ -]+\))?"),
    "path": re.compile(r"/[A-Za-z0-9_./-]+"),
    "job": re.compile(r"[0-9]+(\.[0-9]+(-[0-9]+(:[0-9]+)?)?)?"),
    "context variable": re.compile(r"[A-Za-z_][A-Za-z0-9_]*"),
}


def usable(kind: str, name: str) -> str:
    """`name`, if it can be written as a `kind`. Raises UnusableName."""
    if not _FORMS[kind].fullmatch(name):
        raise UnusableName(
            f"{name!r} cannot be the name of a {kind}: nothing was changed"
            if kind in _NAMED
            else f"{name!r} cannot be a {kind}: nothing was changed"
        )
    return name


_NAMED = frozenset({"host", "queue", "host group", "parallel environment", "complex", "context variable"})


def complex_values(values: Mapping[str, str] | Iterable[tuple[str, str]]) -> str:
    """`slots=8,h_vmem=32G,gpu=2(0 1)`; NONE for no values. Raises UnusableName."""
    pairs = values.items() if isinstance(values, Mapping) else values
    return ",".join(f"{usable('complex', k)}={usable('value of a complex', v)}" for k, v in pairs) or "NONE"


def exec_host(host: str, values: Mapping[str, str]) -> str:
    """An execution host for `qconf -Ae`."""
    return _render("exechost", host=usable("host", host), complex_values=complex_values(values))


def host_group(group: str, hosts: Iterable[str]) -> str:
    """A host group for `qconf -Ahgrp`."""
    members = " ".join(usable("host", host) for host in hosts) or "NONE"
    return _render("hostgroup", group=usable("host group", group), hosts=members)


def parallel_environment(pe: str, *, slots: int, allocation_rule: str, across_hosts: bool) -> str:
    """A PE for `qconf -Ap`. One `across_hosts` lets a job start its tasks elsewhere by `qrsh -inherit`, and does not
    count the job script as one of them.
    """
    return _render(
        "pe",
        pe=usable("parallel environment", pe),
        slots=slots,
        allocation_rule=allocation_rule,
        control_slaves="TRUE" if across_hosts else "FALSE",
        job_is_first_task="FALSE" if across_hosts else "TRUE",
    )


def queue(name: str, *, host_group: str, pes: Iterable[str], slots_by_host: Mapping[str, int]) -> str:
    """A cluster queue for `qconf -Aq`: only its hosts bring slots."""
    own = (f"[{usable('host', host)}={slots}]" for host, slots in slots_by_host.items())
    return _render(
        "queue",
        queue=usable("queue", name),
        host_group=usable("host group", host_group),
        pes=" ".join(usable("parallel environment", pe) for pe in pes) or "NONE",
        slots=",".join(("0", *own)),
    )


def userset(name: str, entries: str) -> str:
    """An access list for `qconf -Au`. `entries`: words with commas, as the caller has checked them.

    Written here, without a template: every autoscaler writes one as it starts, and would keep all of Jinja for it.
    """
    return f"name    {usable('queue', name)}\ntype    ACL\nfshare  0\noticket 0\nentries {entries}\n"


@contextmanager
def as_file(text: str, name: str = "object") -> Iterator[Path]:
    """The text in a file that only we can write, for the length of one `qconf -A…`."""
    with tempfile.TemporaryDirectory(prefix="sge-autoscaler-") as directory:
        file = Path(directory) / name
        file.write_text(text, encoding="utf-8")
        yield file


def _render(template: str, **values: object) -> str:
    return templates("sge").get_template(f"{template}.j2").render(values)


@cache
def templates(
    folder: str, *, trim_blocks: bool = False, extensions: tuple[type[Extension], ...] = ()
) -> jinja2.Environment:
    """Those of `conf/FOLDER`. In scripts a value is quoted for the shell by the filter `sh`."""
    import jinja2  # here: an idle cell does not need it

    found = jinja2.Environment(
        loader=jinja2.PackageLoader("autoscaler.conf", folder),
        extensions=extensions,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=trim_blocks,
        autoescape=False,  # this is no HTML; names are checked instead, and values in a script are quoted
    )
    found.filters["sh"] = lambda value: quote(str(value))
    return found
