"""Machines of Azure: single virtual machines in one resource group, each made only if it is absent.

Every listing is whole or an error (`calls`), a repeated order makes nothing twice (`orders`), and machines with another
cell's tag are neither listed nor ended (`tags`). The `market` has the offers. A machine's id is its name, which Azure
keeps unique in the resource group.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import ClassVar

import requests

from autoscaler.background import Executor, on_thread
from autoscaler.core.model.fleet import Bucket, MachineState, Worker
from autoscaler.providers.azure import tags
from autoscaler.providers.azure.calls import Calls, Record
from autoscaler.providers.azure.checks import problems
from autoscaler.providers.azure.errors import MachineUnknown
from autoscaler.providers.azure.identity import Grants
from autoscaler.providers.azure.listing import Status, addresses, states, status, worker
from autoscaler.providers.azure.market import Market
from autoscaler.providers.azure.orders import LANES, Orders
from autoscaler.providers.azure.settings import NETWORK, AzureSettings
from autoscaler.providers.catalog import Offer
from autoscaler.providers.ending import each, raise_errors
from autoscaler.providers.interface import (
    CallBudget,
    Launched,
    LaunchOrder,
    Problem,
    ProviderError,
    Refused,
    Unreachable,
)
from autoscaler.providers.price_age import oldest_price

STATUS_AGE = 60.0
"""Seconds between two requests for power states: a listing only has the result of creation."""
LISTED_AFTER_END = 3600.0
"""Seconds that a machine is still listed once its end is certain."""
MOST_DOUBTS = 20
"""Machines for which one listing checks whether they are gone; the next listing checks the others."""
NETWORK_VERSION = "2024-05-01"
CONSOLE_TIMEOUT = (5.0, 20.0)


class AzureProvider:
    """Azure in one region and resource group, for the machines of one cell."""

    name: ClassVar[str] = "azure"
    enrols_itself: ClassVar[bool] = False
    Settings: ClassVar[type[AzureSettings]] = AzureSettings

    def __init__(
        self,
        settings: AzureSettings,
        *,
        cell: str,
        calls: Calls | None = None,
        executor: Executor = on_thread,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.cell, self.clock = settings, cell, clock
        self.calls = calls or Calls(settings)
        self.market = Market(self.calls, settings, executor)
        self.grants = Grants(self.calls, executor, clock)
        self.orders = Orders(self.calls, self.grants.of_new, self.market.data_disks)
        self._statuses: Mapping[str, Status] = {}
        self._statuses_until = float("-inf")
        self._addresses: Mapping[str, str] = {}
        self._asked: set[str] = set()
        """Machines whose end was requested and accepted."""
        self._living: dict[str, Worker] = {}
        self._gone: dict[str, tuple[Worker, float]] = {}
        self._advice = self.market.advice

    @property
    def location(self) -> str:
        return self.settings.location

    @staticmethod
    def oldest_price(settings: AzureSettings) -> date | None:
        return oldest_price(settings.catalog, "azure", settings.location)

    def buckets(self) -> Sequence[Bucket]:
        try:
            return self.market.buckets()
        except ProviderError as error:
            raise Unreachable.of(error) from error

    def workers(self) -> Sequence[Worker]:
        try:
            ours = [machine for machine in self._listed() if self._is_ours(machine)]
            self.grants.of_listed(ours)
            seen = self._seen(ours)
            found = self._addressed(ours)
            workers = [
                worker(
                    machine,
                    seen[_key(machine)],
                    found.get(_key(machine)),
                    self.settings,
                    self.market.type_of,
                    self.market.price,
                )
                for machine in ours
            ]
            return [*workers, *self._ended({each.id: each for each in workers})]
        except ProviderError as error:
            raise Unreachable.of(error) from error
        except (KeyError, AttributeError, TypeError, ValueError) as error:
            raise Unreachable(f"a machine in the listing cannot be understood: {error!r}") from error

    def launch(self, order: LaunchOrder) -> Launched:
        if order.cell != self.cell:
            raise Refused(f"the provider of {self.cell} got an order of {order.cell}")
        return self.orders.launch(order)

    def terminate(self, ids: Sequence[str]) -> None:
        """A missing machine is gone: one that no listing showed is looked up by its name, which does not lag."""
        wanted = [worker_id for worker_id in dict.fromkeys(ids) if tags.MACHINE.fullmatch(worker_id)]
        unseen = [worker_id for worker_id in wanted if worker_id not in self._living]
        looked_up, unknown = each(unseen, self.calls.machine, LANES)
        found = [machine for machine in looked_up.values() if machine is not None]
        theirs = [_name(machine) for machine in found if not self._is_ours(machine)]
        if theirs:
            raise Refused(
                f"{', '.join(theirs)} do not carry the tag of {self.cell}: left alone; nothing was terminated"
            )
        ours = [*(worker_id for worker_id in wanted if worker_id in self._living), *map(_name, found)]
        _, failed = each(ours, self._delete, LANES)
        raise_errors({**unknown, **failed})

    def call_budget(self) -> CallBudget:
        return self.calls.rate_limiter.budget()

    def troubles(self) -> Mapping[str, str]:
        return {**self._advice.troubles(), **self.calls.rate_limiter.troubles()}

    def check(self) -> Sequence[Problem]:
        return list(problems(self.calls, self.settings, self.market))

    def offers(self, as_of: str) -> Sequence[Offer]:
        return self.market.offers(as_of)

    def console(self, worker_id: str) -> str:
        """The serial console, as Azure keeps it for a while; '' for a machine that is not ours."""
        machine = self.calls.machine(worker_id) if tags.MACHINE.fullmatch(worker_id) else None
        if machine is None or not self._is_ours(machine):
            return ""
        group = self.settings.resource_group
        found = self.calls.ask(
            f"the console of {worker_id}",
            lambda client: client.virtual_machines.retrieve_boot_diagnostics_data(group, worker_id),
            "consoles",
        )
        address = found.get("serialConsoleLogBlobUri")
        if not address:
            return ""
        try:  # the address itself is the permission: our token must not go there
            answer = requests.get(str(address), timeout=CONSOLE_TIMEOUT)
            answer.raise_for_status()
        except requests.RequestException as error:
            raise Unreachable(f"the console of {worker_id} cannot be read: {type(error).__name__}") from error
        return answer.text

    def _listed(self) -> list[Record]:
        group = self.settings.resource_group
        return self.calls.pages(
            "the list of machines", lambda client, **more: client.virtual_machines.list(group, **more)
        )

    def _seen(self, ours: Sequence[Record]) -> dict[str, Status]:
        """Each machine's instance view, all with one call. A failed machine is asked for separately."""
        if self.clock() >= self._statuses_until:
            self._statuses = self._advice.read("the power states of machines", self._read_states, self._statuses)
            self._statuses_until = self.clock() + STATUS_AGE
        seen = {_key(machine): self._statuses.get(_key(machine), Status()) for machine in ours}
        for machine in ours:
            if machine["properties"]["provisioningState"] == "Failed" and not seen[_key(machine)].failed:
                seen[_key(machine)] = self._view(_name(machine))
        return seen

    def _read_states(self) -> Mapping[str, Status]:
        return {_key(each): status(each["properties"].get("instanceView")) for each in states(self.calls)}

    def _view(self, name: str) -> Status:
        group = self.settings.resource_group
        try:
            return status(
                self.calls.ask(
                    f"the state of {name}",
                    lambda client: client.virtual_machines.instance_view(group, name),
                    "states of single machines",
                )
            )
        except MachineUnknown:
            return Status()

    def _addressed(self, ours: Sequence[Record]) -> Mapping[str, str]:
        """Private addresses by machine. They never change: cards are only listed while an address is unknown."""
        living = {_key(machine) for machine in ours if machine["properties"]["provisioningState"] == "Succeeded"}
        if living - self._addresses.keys():
            path = f"{self.settings.group_path}/providers/{NETWORK}/networkInterfaces"
            # Names alone are enough if a DNS knows them.
            self._addresses = self._advice.read(
                "the private addresses of machines",
                lambda: addresses(self.calls.get_pages(path, NETWORK_VERSION)),
                self._addresses,
            )
        return self._addresses

    def _ended(self, listed: Mapping[str, Worker]) -> list[Worker]:
        """Machines that were listed once and are no more: their end is certain if it had begun, or if Azure knows no
        such name.
        """
        now = self.clock()
        missing = [worker_id for worker_id in self._living if worker_id not in listed]
        begun = {each for each in missing if each in self._asked or self._living[each].state is MachineState.STOPPING}
        doubtful = [worker_id for worker_id in missing if worker_id not in begun][:MOST_DOUBTS]
        begun.update(worker_id for worker_id in doubtful if self.calls.machine(worker_id) is None)
        for worker_id in begun:
            self._gone[worker_id] = replace(self._living[worker_id], state=MachineState.TERMINATED, failure=None), now
        self._asked -= begun
        kept = {worker_id: last for worker_id, last in self._living.items() if worker_id not in begun}
        self._living = {**kept, **listed}
        self._gone = {
            worker_id: each
            for worker_id, each in self._gone.items()
            if worker_id not in listed and now - each[1] < LISTED_AFTER_END
        }
        return [gone for gone, _ in self._gone.values()]

    def _delete(self, name: str) -> None:
        """At once, without waiting for the system to go down: its jobs are known to be done."""
        group = self.settings.resource_group
        with contextlib.suppress(MachineUnknown):
            self.calls.ask(
                f"deleting {name}",
                lambda client: client.virtual_machines.begin_delete(group, name, force_deletion=True, polling=False),
                "deleting machines",
            )
            self._asked.add(name)

    def _is_ours(self, machine: Record) -> bool:
        return tags.carried(machine).get(tags.CELL) == self.cell


def _name(machine: Record) -> str:
    return str(machine["name"])


def _key(machine: Record) -> str:
    """A machine's resource id in small letters: Azure may write it in capitals."""
    return str(machine["id"]).lower()
