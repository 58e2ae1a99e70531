"""Machines of Amazon EC2.

Every order is one idempotent request (`orders`), every listing is whole or an error (`calls`), and machines with
another cell's tag are neither listed nor ended (`tags`). The `market` has the offers and their prices.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any, ClassVar

from autoscaler.background import Executor, on_thread
from autoscaler.core.model.fleet import Bucket, PriceType, Worker
from autoscaler.providers.aws import tags
from autoscaler.providers.aws.calls import Answer, Calls
from autoscaler.providers.aws.checks import problems
from autoscaler.providers.aws.errors import (
    MachineUnknown,
    SubnetMissing,
    TemplateExists,
    TemplateMissing,
    TokenEnded,
    TokenMismatch,
)
from autoscaler.providers.aws.listing import worker
from autoscaler.providers.aws.maintenance import Maintenance
from autoscaler.providers.aws.market import Market
from autoscaler.providers.aws.notices import Notices
from autoscaler.providers.aws.orders import (
    Place,
    chosen,
    fleet_answer,
    fleet_request,
    fleet_template,
    places,
    places_of,
    run_answer,
    run_request,
)
from autoscaler.providers.aws.settings import AwsSettings
from autoscaler.providers.aws.terms import Terms
from autoscaler.providers.catalog import Offer
from autoscaler.providers.interface import (
    CallBudget,
    Interruption,
    Launched,
    LaunchOrder,
    OutOfCapacity,
    Problem,
    ProviderError,
    QuotaReached,
    Refused,
    Unreachable,
)
from autoscaler.providers.price_age import oldest_price

MOST_A_PAGE, MOST_A_CALL = 1000, 500
MOST_IN_A_FILTER = 200
"""EC2 refuses a filter with more values."""
OLD_TEMPLATE = timedelta(days=7)
"""Age from which a fleet's launch template that is not in use is deleted; one that is needed again is made again."""
SURELY_VISIBLE = 300.0
"""Seconds after which EC2 shows a machine that it launched, or has forgotten it."""
SWEEP_EVERY, MOST_SWEPT = 3600.0, 50
"""Seconds between two sweeps of old templates, and how many one deletes: a launch waits for it."""
# Ids have 17 digits since 2016, and had 8 before.
MACHINE = re.compile(r"i-[0-9a-f]{8,17}")


class AwsProvider:
    """EC2 in one region, for the machines of one cell."""

    name: ClassVar[str] = "aws"
    enrols_itself: ClassVar[bool] = False
    Settings: ClassVar[type[AwsSettings]] = AwsSettings

    def __init__(
        self,
        settings: AwsSettings,
        *,
        cell: str,
        calls: Calls | None = None,
        executor: Executor = on_thread,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.cell, self.clock = settings, cell, clock
        self.calls = calls or Calls(settings)
        self.market = Market(self.calls, settings, executor)
        self.notices = Notices(self.calls, settings.event_queue)
        self.maintenance = Maintenance(self.calls, self.notices.advice)
        self._templates: set[str] = set()
        self._swept_at = float("-inf")
        self._began = clock()
        self._launched: dict[str, float] = {}
        """When this process launched a machine that it has not ended yet."""
        self._ended: set[str] = set()
        """Machines that this process ended while EC2 did not show them."""
        self._listed: Sequence[Worker] | None = None

    @property
    def location(self) -> str:
        return self.settings.region or ""

    @staticmethod
    def oldest_price(settings: AwsSettings) -> date | None:
        """If AWS is asked, only the operator's own figures are known to be used over its answers."""
        return oldest_price(settings.catalog, "aws", settings.region or "", only_own=settings.prices == "ask")

    def buckets(self) -> Sequence[Bucket]:
        try:
            return self.market.buckets()
        except ProviderError as error:
            raise Unreachable.of(error) from error

    def workers(self) -> Sequence[Worker]:
        try:
            type_of, prices, names = cache(self.market.type_of), self.market.prices(), self.settings.host_names
            found = self._described(tags.filters(cell=self.cell))
            self._listed = [worker(each, type_of, prices, names) for each in found if self._is_ours(each)]
        except ProviderError as error:
            raise Unreachable.of(error) from error
        except (KeyError, AttributeError, TypeError) as error:
            raise Unreachable(f"cannot understand a machine in the listing: {error!r}") from error
        return self._listed

    def launch(self, order: LaunchOrder) -> Launched:
        if order.cell != self.cell:
            raise Refused(f"the provider of {self.cell} got an order of {order.cell}")
        try:
            if not order.chosen:
                # An earlier version stored it, and may have requested it at other places: that was another request.
                if before := self._of_token(order):
                    return _before(order, before, "it was requested before")
                order = replace(order, chosen=self.choose(order))
            settings = self.settings.of_array(order.settings)
            terms, found = self.market.terms(settings), places_of(order)
            if len(found) > 1:
                launched = self._fleet(order, found, settings, terms)
            else:
                answer = self.calls.ask("run_instances", **run_request(order, found[0], settings, terms))
                launched = run_answer(order, found[0], answer)
        except (OutOfCapacity, QuotaReached) as error:
            launched = _none_of(order, error, found)
        except SubnetMissing as error:
            self.market.forget_terms()
            if len(terms.zones) == 1 and len(places(order, terms)) == 1:
                raise
            launched = _none_of(order, OutOfCapacity(f"{error}; other subnets may still work"), found)
        except (TokenEnded, TokenMismatch) as error:
            launched = self._made_before(order, error)
        self._launched.update(dict.fromkeys(launched.ids, self.clock()))
        return launched

    def choose(self, order: LaunchOrder) -> Mapping[str, str]:
        settings = self.settings.of_array(order.settings)
        return chosen(order, self.market.terms(settings), fleets=settings.fleets)

    def terminate(self, ids: Sequence[str]) -> None:
        """A machine that is not visible is gone, unless it may be too new for that: if this process launched it, it is
        ended unseen; if an earlier one may have, that is known after some minutes.
        """
        wanted = [worker_id for worker_id in dict.fromkeys(ids) if MACHINE.fullmatch(worker_id)]
        seen = {found["InstanceId"]: found for part in _parts(wanted, MOST_IN_A_FILTER) for found in self._named(part)}
        theirs = [worker_id for worker_id, found in seen.items() if not self._is_ours(found)]
        if theirs:
            raise Refused(
                f"{', '.join(theirs)} do not carry the tag of {self.cell}: left alone; nothing was terminated"
            )
        ending = [each for each, found in seen.items() if found["State"]["Name"] not in ("shutting-down", "terminated")]
        hidden = [worker_id for part in _parts(ending, MOST_A_CALL) for worker_id in self._end(part)]
        hidden += [worker_id for worker_id in wanted if worker_id not in seen and not self._end_unseen(worker_id)]
        for worker_id in ids:
            if worker_id not in hidden:
                self._launched.pop(worker_id, None)
        if hidden:
            error = Unreachable(
                f"EC2 does not show {', '.join(hidden)}, which may be too new for that: the autoscaler ends it later"
            )
            error.ids = tuple(hidden)
            raise error

    def _end(self, ids: Sequence[str]) -> list[str]:
        """End visible machines; returns those that EC2 does not know any more."""
        try:
            self.calls.ask("terminate_instances", InstanceIds=list(ids))
        # If one id is unknown, TerminateInstances ends none of the others either.
        except MachineUnknown:
            if len(ids) == 1:
                return list(ids)
            half = len(ids) // 2
            return [*self._end(ids[:half]), *self._end(ids[half:])]
        return []

    def _end_unseen(self, worker_id: str) -> bool:
        """End a machine that no listing shows; whether it is ended, or surely gone."""
        if worker_id in self._ended:
            return True
        launched_at = self._launched.get(worker_id)
        if launched_at is None:  # whose it is cannot be seen, so it is not ended (rule 4)
            return self.clock() - self._began >= SURELY_VISIBLE
        if self._end([worker_id]):
            return self.clock() - launched_at >= SURELY_VISIBLE
        self._ended.add(worker_id)
        return True

    def call_budget(self) -> CallBudget:
        return self.calls.rate_limiter.budget()

    def troubles(self) -> Mapping[str, str]:
        return {**self.notices.advice.troubles(), **self.calls.rate_limiter.troubles()}

    def check(self) -> Sequence[Problem]:
        return list(problems(self.calls, self.settings, self.market, self.cell))

    def console(self, worker_id: str) -> str:
        """The machine's last console output, as EC2 keeps it; '' for one that is not ours."""
        if not any(self._is_ours(found) for found in self._named([worker_id])):
            return ""
        try:
            answer = self.calls.ask("get_console_output", InstanceId=worker_id, Latest=True)
        except Refused:  # only newer machines have a latest page
            answer = self.calls.ask("get_console_output", InstanceId=worker_id)
        return str(answer.get("Output", ""))

    def offers(self, as_of: str) -> Sequence[Offer]:
        return self.market.offers(as_of)

    def interruptions(self) -> Sequence[Interruption]:
        living = [found for found in self._listed or self.workers() if found.exists]
        spot = [found.id for found in living if found.price_type is PriceType.SPOT]
        ids = {found.id for found in living}
        return [*self.notices.of_workers(spot, ids), *self.maintenance.of_workers(ids)]

    def notices_kept(self) -> None:
        self.notices.kept()

    def _fleet(self, order: LaunchOrder, found: Sequence[Place], settings: AwsSettings, terms: Terms) -> Launched:
        template = fleet_template(order, settings, terms)
        request = fleet_request(order, found, settings, terms, template["LaunchTemplateName"])
        self._make_template(template)
        try:
            answer = self.calls.ask("create_fleet", **request)
        except TemplateMissing:
            self._templates.discard(template["LaunchTemplateName"])
            self._make_template(template)
            answer = self.calls.ask("create_fleet", **request)
        self._sweep_templates()
        return fleet_answer(order, found, answer)

    def _make_template(self, template: Answer) -> None:
        """Once for every node array and setting: its name is made of them, and it has nothing of a single order."""
        name = template["LaunchTemplateName"]
        if name in self._templates:
            return
        with contextlib.suppress(TemplateExists):
            self.calls.ask("create_launch_template", **template)
        self._templates.add(name)

    def _sweep_templates(self) -> None:
        """Once an hour, after a launch: a region holds a limited number. A failure is left for the next time."""
        if time.monotonic() - self._swept_at < SWEEP_EVERY:
            return
        self._swept_at = time.monotonic()
        with contextlib.suppress(ProviderError):
            ours = self.calls.pages(
                "describe_launch_templates", "LaunchTemplates", Filters=tags.filters(cell=self.cell), MaxResults=200
            )
            old = [
                each
                for each in ours
                if each["CreateTime"] < datetime.now(UTC) - OLD_TEMPLATE
                and each["LaunchTemplateName"] not in self._templates
            ]
            for each in old[:MOST_SWEPT]:
                self.calls.ask("delete_launch_template", LaunchTemplateId=each["LaunchTemplateId"])

    def _made_before(self, order: LaunchOrder, error: ProviderError) -> Launched:
        """The result of a token that EC2 will not answer again: its machines ended, or the settings changed."""
        ids = self._of_token(order, str(error))
        if not ids and isinstance(error, TokenMismatch):
            raise Unreachable(f"{error}; the listing shows no machine of it yet") from error
        return _before(order, ids, str(error))

    def _of_token(self, order: LaunchOrder, why: str = "an earlier request") -> tuple[str, ...]:
        """The visible machines of an order. Raises Unreachable."""
        try:
            listed = list(self._described(tags.filters(cell=self.cell, token=order.token)))
        except ProviderError as error:
            raise Unreachable(f"{why}; whether machines of it exist is not known: {error}") from error
        return tuple(found["InstanceId"] for found in listed)

    def _named(self, ids: Sequence[str]) -> Iterable[Answer]:
        """The visible ones of these machines. A filter, unlike ids, is no error for the others."""
        return self._described([{"Name": "instance-id", "Values": list(ids)}]) if ids else ()

    def _described(self, filters: Sequence[dict[str, Any]]) -> Iterable[Answer]:
        # EC2 refuses MaxResults beside InstanceIds, but not beside a filter of ids.
        reservations = self.calls.pages(
            "describe_instances", "Reservations", Filters=list(filters), MaxResults=MOST_A_PAGE
        )
        for reservation in reservations:
            yield from reservation["Instances"]

    def _is_ours(self, found: Answer) -> bool:
        return tags.as_mapping(found.get("Tags", ())).get(tags.CELL) == self.cell


def _before(order: LaunchOrder, ids: tuple[str, ...], why: str) -> Launched:
    """The machines of an order that was requested before: nothing is added to them."""
    short = OutOfCapacity(f"{len(ids)} of {order.count} machines of this order exist: {why}")
    return Launched(ids, () if len(ids) >= order.count else ((order.buckets[0].key, short),))


def _none_of(order: LaunchOrder, error: ProviderError, found: Sequence[Place]) -> Launched:
    """Nothing was given by any place; for a full quota the message says how much the order needs."""
    if isinstance(error, QuotaReached):
        type_ = order.buckets[0].type
        error = QuotaReached(f"{error} (asked for {order.count} {type_.name}: {order.count * type_.vcpus} vCPUs)")
    tried = dict.fromkeys(place.bucket for place in found)
    return Launched((), tuple((key, error) for key in tried))


def _parts(ids: Sequence[str], most: int) -> Iterable[list[str]]:
    return (list(ids[start : start + most]) for start in range(0, len(ids), most))
