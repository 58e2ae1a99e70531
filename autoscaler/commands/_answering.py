"""The answers of `run` and `serve`: from the loop's last pass, or relayed to the running autoscaler."""

from __future__ import annotations

import contextlib
import grp
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from autoscaler.commands.context import Invocation
from autoscaler.errors import SettingsError, StateNotKept
from autoscaler.store import lock
from autoscaler.store.accounting_index import AccountingIndex

if TYPE_CHECKING:
    from autoscaler.api.answers import Answers
    from autoscaler.api.local_roles import LocalRoles
    from autoscaler.api.relayed_answers import RelayedAnswers
    from autoscaler.engine.last_decision import LastDecision
    from autoscaler.engine.loop import Loop
    from autoscaler.store.store import Store

log = logging.getLogger("autoscaler.api")


@contextlib.contextmanager
def answering(invocation: Invocation, loop: Loop) -> Iterator[Callable[[], Answers]]:
    """Yields a function that makes the `Answers` at its first call; until then they cost nothing."""
    from autoscaler.engine.last_decision import LastDecision

    last_pass = LastDecision()
    loop.attach(last_pass)
    with contextlib.ExitStack() as stack:

        @cache
        def made() -> Answers:
            from autoscaler.api.answers import Answers
            from autoscaler.store.run_time_history import RunTimeHistory

            store = stack.enter_context(invocation.store())  # so that questions never wait for the loop's connection
            answers = Answers(
                last_pass,
                store,
                status_of(invocation, store, last_pass=last_pass),
                accounting_index(invocation),
                owners_only=invocation.settings.process.job_details == "owner",
                polling_delay=lambda: loop.poll,
                owner_now=owner_now(invocation),
                names_now=names_now(invocation),
                own_names_now=own_names_now(invocation),
                run_times=RunTimeHistory(invocation.common / "accounting"),
            )
            stack.callback(answers.close)
            return answers

        yield made


def owner_now(invocation: Invocation) -> Callable[[int], str | None]:
    """Asks Grid Engine who owns a job that no pass has seen; None: it has no such job."""
    from autoscaler.api.answers import SOON
    from autoscaler.sge.lookup import Lookup

    lookup = Lookup(invocation.runner, SOON)

    def asked(job: int) -> str | None:
        found = lookup.owner(job)
        return None if found is None else found.owner

    return asked


def names_now(invocation: Invocation) -> Callable[[], Mapping[int, str]]:
    """Asks Grid Engine for the names of waiting jobs."""
    from autoscaler.api.answers import SOON
    from autoscaler.sge.lookup import Lookup

    return Lookup(invocation.runner, SOON).names


def own_names_now(invocation: Invocation) -> Callable[[str], Mapping[int, str]]:
    """Asks Grid Engine for the names of the waiting jobs of one owner."""
    from autoscaler.api.answers import SOON
    from autoscaler.sge.lookup import Lookup

    return Lookup(invocation.runner, SOON).names


def accounting_index(invocation: Invocation) -> AccountingIndex | None:
    """This cell's index, beside the store; None if it cannot be written, and ended jobs are explained without it."""
    try:
        return AccountingIndex.open(invocation.store_file.with_suffix(".accounting"), invocation.common / "accounting")
    except (SettingsError, StateNotKept) as error:
        log.warning("the accounting cannot be indexed: %s", error)
        return None


def status_of(
    invocation: Invocation, store: Store, *, serves: bool = True, last_pass: LastDecision | None = None
) -> Callable[[], dict[str, Any]]:
    """Makes the document of `status` when called. `serves`: whether this process is the autoscaler, with this
    last pass."""
    from autoscaler.engine.spending import SpendingReader
    from autoscaler.report.status import Now, status

    prices: list[tuple[float, Any]] = []

    def made() -> dict[str, Any]:
        now = time.time()
        if not prices or now - prices[0][0] > 3600:
            prices[:] = [(now, invocation.oldest_price())]
        who = lock.running(invocation.cell) if serves else invocation.running
        current = invocation if serves else invocation.as_running
        decided = None if last_pass is None or last_pass.seen is None else last_pass.seen
        seen = None if decided is None else decided[0].snapshot
        policy = current.settings.policy(master="", currency=current.currency()) if seen is None else seen.policy
        return status(
            store,
            Now(
                at=now,
                cell=invocation.cell.title,
                provider=current.settings.process.provider,
                serving=who is not None,
                silent=invocation.silent,
                holder=who if who is not None and who.pid else None,
                policy=policy,
                spending=SpendingReader(store).read(policy, now) if seen is None else seen.spending,
                oldest_price=prices[0][1],
                decided=None if decided is None else (decided[0].plan, decided[1], decided[0].snapshot.now),
            ),
        )

    return made


def relayed(invocation: Invocation) -> RelayedAnswers:
    """Relays questions to the autoscaler that is running at that time."""
    from autoscaler.api.relayed_answers import RelayedAnswers
    from autoscaler.commands._answers import socket_of_service

    return RelayedAnswers(lambda: socket_of_service(Invocation(invocation.environ)))


def local_roles(invocation: Invocation) -> LocalRoles:
    """The roles of local users at the socket."""
    from autoscaler.api.local_roles import LocalRoles

    process = invocation.settings.process

    def managers() -> Collection[str]:
        from autoscaler.sge.admin import Administrator
        from autoscaler.sge.qconf import read_names

        return read_names(Administrator(invocation.runner, timeout=process.grid_engine_timeout).show("-sm"))

    group = None if process.socket_group is None else grp.getgrnam(process.socket_group).gr_gid
    return LocalRoles(group, managers)
