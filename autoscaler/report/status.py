"""The answer to `status`, from the store alone: it must work while Grid Engine and the provider do not answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from autoscaler.core.cost.spending import Budget, BudgetAction, Spending, Whose
from autoscaler.core.limits.budgets import LEVELS, level
from autoscaler.core.limits.limits import HOUR
from autoscaler.core.limits.protected_mode import Protection
from autoscaler.core.model.fleet import FailureKind, LaunchFailure, OrderState
from autoscaler.core.model.memory import Backoff
from autoscaler.core.model.reasons import Code
from autoscaler.core.policy import Policy
from autoscaler.core.snapshot import Plan
from autoscaler.core.workers.phases import Condition
from autoscaler.providers.interface import OLD_PRICES
from autoscaler.report import SCHEMA
from autoscaler.report.document import reason_part
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.requests import requests_document, requests_line
from autoscaler.report.wording import count, duration, few, instant_of, number
from autoscaler.store.history import PassRecord
from autoscaler.store.lock import Holder
from autoscaler.store.store import Store

_Pairs = Iterator[tuple[str, str]]
_COUNTED = ("waiting", "counted", "fitting")
LATELY = 1800.0
"""Seconds for which failures of launches are shown."""
MOST_FAILURES = 5


@dataclass(frozen=True, slots=True)
class Now:
    """Facts that are not in the store."""

    at: float
    cell: str
    provider: str | None
    serving: bool
    """Whether an autoscaler holds the cell's lock."""
    holder: Holder | None
    silent: bool = False
    """Whether that autoscaler did not answer."""
    policy: Policy | None = None
    """The policy in force; None: not known."""
    spending: Spending = field(default_factory=Spending)
    oldest_price: date | None = None
    """The date of the oldest price that the provider uses; None: it asks its cloud, or knows no prices."""
    decided: tuple[Plan, int, float] | None = None
    """The plan of the last pass, its number and its time; None: only the store knows."""


def status(store: Store, now: Now) -> dict[str, Any]:
    """The document of `status`."""
    memory, overrides = store.memory.load(), store.overrides.load()
    level = store.overrides.log_level()
    last = next(iter(store.history.passes(1)), None)
    pass_at = memory.observed_at if memory.observed_at is not None or last is None else last.at
    number = memory.passes
    if now.decided is not None:
        _, number, pass_at = now.decided
    renting = store.history.renting()
    prices = [life.price_per_hour for life in renting]
    requests = requests_document(store.requests.load(now.at), now.at, store.history.living())
    return {
        "schema": SCHEMA,
        "now": _at(now.at),
        "cell": now.cell,
        "provider": now.provider,
        "lock": asdict(now.holder) | {"since": _at(now.holder.since)} if now.holder else None,
        "serving": now.serving,
        "silent": now.silent,
        "sentence": None if last is None else last.sentence,
        "pass": number,
        "sentence_at": None if last is None else _at(last.at),
        "sentence_age_s": None if last is None else round(now.at - last.at, 3),
        "pass_at": None if pass_at is None else _at(pass_at),
        "pass_age_s": None if pass_at is None else round(now.at - pass_at, 3),
        **_counts(store, now, last),
        "workers": len(renting),
        "ordered": _ordered(store, now.at),
        "price_per_hour": round(sum(price for price in prices if price is not None), 6),
        "currency": "USD" if now.policy is None else now.policy.currency,
        "budgets": [] if now.policy is None else list(_budgets(now.policy, now.spending)),
        "prices_as_of": None if now.oldest_price is None else now.oldest_price.isoformat(),
        "unknown_prices": sum(price is None for price in prices),
        "request_sets": requests["request_sets"],
        "requested": requests_line(requests),
        "log_level": None if level is None else {"level": level.level.value, "by": level.who},
        "paused": {"by": overrides.paused_by} if overrides.paused else None,
        "stop": overrides.stop,
        "stopped_by": overrides.stopped_by or None,
        "disabled_by_hand": disabled_by_hand(store),
        "set_aside": {name: why.value for name, why in sorted(set_aside(store).items())},
        "keep": sorted(overrides.keep),
        "drain": sorted(overrides.drain),
        "asked_by": {one.host: one.who for one in store.overrides.in_force() if one.host},
        "circuit_breaker": None if memory.circuit_breaker is None else reason_part(memory.circuit_breaker),
        "stopped": dict(memory.stopped),
        "failures": [_failure_part(alike) for alike in _alike(store.journal.failures(now.at - LATELY))],
        "unanswered": _unanswered(store, now.at),
        "failed_workers": _failed_workers(store),
        "lost_jobs": _lost_jobs(store),
        "refused_ends": [
            {"worker_id": each.worker_id, "times": each.times, "last_at": _at(each.at), "message": each.message}
            for each in store.journal.refused_ends(life.worker_id for life in renting)
        ],
        "backoff": [_backoff_part(each) for each in memory.backoffs if each.until > now.at],
        "protected": [reason_part(reason) for reason in Protection(memory.protected, now=now.at).notes()],
        "troubles": list(store.observations.troubles()),
        "notifications": notifications_part(store),
    }


def _counts(store: Store, now: Now, news: PassRecord | None) -> dict[str, int | None]:
    """Waiting tasks and persistent hosts of the last pass: the last one with news may be long ago."""
    if now.decided is not None:
        plan = now.decided[0]
        persistent = sum(worker.id is None for worker in plan.workers)
        return {**{name: getattr(plan, name) for name in _COUNTED}, "persistent": persistent}
    sample = store.samples.last()
    if sample is not None and (news is None or sample.at >= news.at):
        return {name: round(getattr(sample, name)) for name in (*_COUNTED, "persistent")}
    document: Mapping[str, Any] = {} if news is None else news.document
    persistent = document.get("workers", {}).get("persistent")
    return {**{name: document.get(name) for name in _COUNTED}, "persistent": persistent}


def notifications_part(store: Store) -> dict[str, Any]:
    """The state of notifications to operators."""
    state = store.notifications.delivery()
    return {
        "waiting": state.waiting,
        "failing_since": None if state.failing_since is None else _at(state.failing_since),
        "message": state.message,
        "dropped": state.dropped,
        "sent_at": None if state.sent_at is None else _at(state.sent_at),
    }


def disabled_by_hand(store: Store) -> list[str]:
    """Workers that a person has disabled, as of the last pass."""
    return sorted(name for name, why in set_aside(store).items() if why is Condition.DISABLED_BY_HAND)


def set_aside(store: Store) -> dict[str, Condition]:
    """Workers that cost and that only a person puts into service or ends, as of the last pass, and why."""
    last = store.observations.load()
    return {
        each.host or each.worker.name or each.worker.id: each.decisive
        for each in (() if last is None else last.workers)
        if each.worker.exists and each.decisive in SET_ASIDE
    }


SET_ASIDE = {
    Condition.DISABLED_BY_HAND: Code.DISABLED_BY_HAND,
    Condition.UNKNOWN_ARRAY: Code.UNKNOWN_NODE_ARRAY,
    Condition.NAME_TAKEN: Code.NAME_TAKEN,
}
"""By the condition for which a worker is left to a person: the reason for that."""


def set_aside_by_reason(workers: Mapping[str, Condition]) -> Iterator[tuple[Code, list[str]]]:
    """The workers of `set_aside` of each reason."""
    for condition, code in SET_ASIDE.items():
        if names := sorted(name for name, why in workers.items() if why is condition):
            yield code, names


def _ordered(store: Store, at: float) -> int:
    """Workers that were ordered and that no listing has shown yet."""
    orders = [order for record in store.journal.orders(at - HOUR) for order in record.as_orders()]
    accepted = {each for order in orders for each in order.ids}
    shown = {life.worker_id for life in store.history.lives_of(accepted)}  # those that ended since, too
    return len(accepted - shown) + sum(order.count for order in orders if order.state is OrderState.SENT)


def _unanswered(store: Store, at: float) -> list[dict[str, Any]]:
    """Orders that the provider has not answered."""
    return [
        {
            "instance_type": order.type.name,
            "count": order.count,
            "message": order.message,
            "asked_again_at": None if order.asked_again_at is None else _at(order.asked_again_at),
        }
        for record in store.journal.orders(at)
        for order in record.as_orders()
        if order.message and not record.closed
    ]


def _failed_workers(store: Store) -> list[dict[str, Any]]:
    """Machines that do not come up or are stopped, as their provider reports; they still cost money."""
    observation = store.observations.load()
    seen = [each.worker for each in observation.workers] if observation is not None else []
    return [
        {"worker_id": worker.id, "name": worker.name, "message": worker.message} for worker in seen if worker.stays_down
    ]


def _lost_jobs(store: Store) -> dict[str, dict[str, Any]]:
    """By execution host whose machine is gone: the jobs that are listed as running until a person deletes them."""
    seen = store.observations.load()
    return {} if seen is None else {host: reason_part(reason) for host, reason in sorted(seen.lost_jobs.items())}


def status_pairs(document: Mapping[str, Any]) -> _Pairs:
    """The same for people, without lines that have nothing to report."""
    yield "cell", document["cell"]
    yield "autoscaler", _who(document)
    yield "provider", document["provider"] or "none set (CP_CAP_AUTOSCALE_PROVIDER)"
    yield from _pass_pairs(document)
    yield from _price_pairs(document)
    if document["requested"]:
        yield "requested", document["requested"]
    yield from trouble_pairs(document)
    for name, phrase in (("keep", "kept by command"), ("drain", "drained by command")):
        if document[name]:
            asked_by = document.get("asked_by", {})  # an older service does not say
            yield (
                phrase,
                ", ".join(f"{host} (by {asked_by[host]})" if host in asked_by else host for host in document[name]),
            )


def trouble_pairs(document: Mapping[str, Any]) -> _Pairs:
    """What keeps the autoscaler from acting, what failed, and what only a person can mend."""
    yield from _held_back_pairs(document)
    yield from _order_pairs(document)
    yield from _failed_worker_pairs(document)
    yield from _set_aside_pairs(document)
    for backoff in document["backoff"]:
        where = f" in {backoff['zone']}" if backoff["zone"] else ""
        until = f"resumed: {backoff['message']}" if backoff["until"] is None else instant_of(backoff["until"])
        yield "back-off", f"no {backoff['price_type']} {backoff['instance_type']}{where} until {until}"
    for reason in document["protected"]:
        yield "protected", reason["text"]
    for trouble in document["troubles"] if document["serving"] else ():
        yield "watching", trouble
    yield from _notification_pairs(document.get("notifications", {}))


def attention_pairs(document: Mapping[str, Any]) -> _Pairs:
    """The same with what else an operator should look at: an autoscaler that does not run, old prices, budgets that are
    spent.
    """
    if not document["serving"] or document["silent"]:
        yield "autoscaler", _who(document)
    yield from trouble_pairs(document)
    for name, text in _price_pairs(document):
        if name == "prices":
            yield name, text
    for budget in document["budgets"]:
        if budget["level"] or budget["spent"] is None:
            yield "budget", f"of {budget['owner']}: {_spent(budget, document['currency'])}{_then(budget)}"


def _pass_pairs(document: Mapping[str, Any]) -> _Pairs:
    """The last pass, waiting tasks, and workers."""
    if document["sentence"] is None:
        yield "last news", "none: no pass has been made yet"
    else:
        age = document.get("sentence_age_s", document["pass_age_s"])  # an older service has none of its own
        yield "last news", f"{document['sentence']} ({duration(age)} ago)"
        busy = ("waiting", "workers", "ordered", "request_sets", "stop", "troubles")
        idle = document["serving"] and not any(document[name] for name in busy)
        then = "; with nothing to scale, passes may be rarer until an event" if idle else ""
        yield "passes", f"{document['pass']} so far, the last {duration(document['pass_age_s'])} ago{then}"
        counted = f"{document['counted']} counted, {document['fitting']} of these fit on what is there or coming"
        yield "waiting", f"{count(document['waiting'], 'task')}, {counted}"
    ordered = f", {document['ordered']} ordered" if document["ordered"] else ""
    yield "workers", f"{document['workers']} additional{ordered}, {document['persistent'] or 0} persistent"


def _price_pairs(document: Mapping[str, Any]) -> _Pairs:
    currency = document["currency"]
    unknown = f" and {document['unknown_prices']} of unknown price" if document["unknown_prices"] else ""
    yield "price", f"{document['price_per_hour']:.3f} {currency} an hour{unknown}"
    for budget in document["budgets"]:
        yield "budget", f"of {budget['owner']}: {_spent(budget, currency)}{_then(budget)}"
    if document["prices_as_of"] and _days(document["prices_as_of"], document["now"]) > OLD_PRICES:
        yield "prices", f"of {document['prices_as_of']}, older than {OLD_PRICES} days: `sge-autoscaler catalog refresh`"


_STOPS = {
    "drain": "--drain: each worker is removed and terminated once no job that fits needs it",
    "now": "--now: each worker is removed and terminated once its jobs have ended",
}


def _stopping(document: Mapping[str, Any]) -> str:
    """How a person stops the autoscaler, and what keeps the stop from its end."""
    by = document.get("stopped_by")  # an older service does not say
    text = (f"by {by}, " if by else "") + _STOPS.get(document["stop"], document["stop"])
    if aside := document.get("set_aside"):
        text += f"; it waits for {few(list(aside))}, on which only a person decides"
    if document["keep"]:
        text += f"; it does not end while {few(document['keep'])} is kept"
    return text if document["serving"] else f"{text}; `sge-autoscaler run` goes on with it, and ends then"


def _held_back_pairs(document: Mapping[str, Any]) -> _Pairs:
    """Causes that keep the autoscaler from acting."""
    if document["paused"]:
        yield "paused", f"by {document['paused']['by']}; `sge-autoscaler resume` goes on"
    if document["log_level"]:
        by = document["log_level"]["by"]
        yield "log level", f"{document['log_level']['level']}, by {by}; `sge-autoscaler log-level settings` ends it"
    if document["stop"]:
        yield "stopping", _stopping(document)
    if document["circuit_breaker"]:
        yield "circuit breaker", f"{document['circuit_breaker']['text']}; `sge-autoscaler resume` goes on"
    for array, why in document["stopped"].items():
        yield "no launches", f"for {array}: {why}"


def _set_aside_pairs(document: Mapping[str, Any]) -> _Pairs:
    """Workers that cost and that only a person puts into service or ends."""
    aside = {name: Condition(why) for name, why in document.get("set_aside", {}).items()}
    for code, names in set_aside_by_reason(aside):
        row = REASONS[code]
        yield "set aside", f"{few(names)}: {row.short}; {row.remedy}"


def _order_pairs(document: Mapping[str, Any]) -> _Pairs:
    """Orders that failed, or that their provider did not answer."""
    for failed in document["failures"][:MOST_FAILURES]:
        last = f"failed {_times(failed['count'])}, last at {instant_of(failed['last_at'])}"
        yield "launches", f"{failed['instance_type']} {last}: {failed['message']}"
    for order in document["unanswered"]:
        at = order["asked_again_at"]
        again = f"; the autoscaler asks again after {instant_of(at)}" if at else ""
        yield "no answer", f"to an order of {order['count']} {order['instance_type']}: {order['message']}{again}"


def _failed_worker_pairs(document: Mapping[str, Any]) -> _Pairs:
    """Workers that did not come up, jobs of lost ones, and those that their provider does not terminate."""
    for worker in document["failed_workers"][:MOST_FAILURES]:
        yield "failed", f"{worker['name'] or worker['worker_id']}: {worker['message'] or 'its provider says no more'}"
    for host, lost in list(document.get("lost_jobs", {}).items())[:MOST_FAILURES]:
        yield "lost jobs", f"on {host}, whose machine is gone: {lost['text']}; {REASONS[Code.LOST_JOBS_STAY].remedy}"
    for end in document["refused_ends"][:MOST_FAILURES]:
        last = f"refused {_times(end['times'])}, last at {instant_of(end['last_at'])}"
        yield "not ended", f"{end['worker_id']}, {last}: {end['message']}"


def _notification_pairs(state: Mapping[str, Any]) -> _Pairs:
    if state.get("failing_since"):
        since = f"{state['waiting']} not sent since {instant_of(state['failing_since'])}"
        yield "notified", f"{since}: {state['message']}; `sge-autoscaler notify --test` tries"
    if state.get("dropped"):
        yield "notified", f"{count(state['dropped'], 'notification')} could never be sent"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _budgets(policy: Policy, spending: Spending) -> Iterator[dict[str, Any]]:
    for budget in policy.budgets:
        yield {
            "owner": budget.owner,
            "budget": budget.amount,
            "spent": round(spending.spent.get(budget.owner, 0.0), 6) if spending.known else None,
            "level": level(budget, spending),
            "action": policy.budget_action.value,
            "until": _at(spending.ends_at),
        }


def _spent(budget: Mapping[str, Any], currency: str) -> str:
    whole = f"{number(budget['budget'])} {currency}"
    if budget["spent"] is None:
        return f"what is spent of {whole} this month is not yet known"
    spent = f"{budget['spent']:.2f}" if budget["budget"] >= 1 else number(budget["spent"])
    return f"{spent} of {whole} are spent this month"


def _then(budget: Mapping[str, Any]) -> str:
    """The effect of a budget that is spent, or whose state is not known."""
    if budget["spent"] is not None and budget["level"] < LEVELS[0]:
        return f" ({budget['level']} % reached)" if budget["level"] else ""
    of_cell = budget["owner"] == Budget(Whose.CELL, "", 0.0).owner
    if budget["action"] == BudgetAction.STOP:
        until = "a pass knows it" if budget["spent"] is None else instant_of(budget["until"])
        return f": nothing is launched{'' if of_cell else ' for its jobs'} until {until}"
    if budget["action"] == BudgetAction.CHEAPEST:
        return f": only the cheapest is launched{'' if of_cell else ' for its jobs'}"
    return ""


def _days(since: str, now: str) -> int:
    return (datetime.fromisoformat(now).date() - date.fromisoformat(since)).days


def _alike(failures: Iterable[LaunchFailure]) -> Iterable[list[LaunchFailure]]:
    """Failures grouped by type, kind and cause, latest first."""
    found: dict[tuple[str, str, str], list[LaunchFailure]] = {}
    for each in failures:
        found.setdefault((each.bucket.instance_type, each.kind, each.message), []).append(each)
    return sorted(found.values(), key=lambda alike: -alike[-1].at)


def _failure_part(alike: Sequence[LaunchFailure]) -> dict[str, Any]:
    last = alike[-1]
    return {
        "instance_type": last.bucket.instance_type,
        "kind": last.kind,
        "count": len(alike),
        "last_at": _at(last.at),
        "message": last.message,
    }


def _backoff_part(backoff: Backoff) -> dict[str, Any]:
    return {
        "instance_type": backoff.bucket.instance_type,
        "zone": backoff.bucket.zone or None,
        "price_type": backoff.bucket.price_type.value,
        "until": None if backoff.kind is FailureKind.PERMANENT else _at(backoff.until),
        "failures": backoff.failures,
        "message": backoff.message,
    }


def _who(document: Mapping[str, Any]) -> str:
    if not document["serving"]:
        return "not running"
    if document["lock"] is None:
        return "running"
    process = f"process {document['lock']['pid']} on {document['lock']['host']} since {document['lock']['since']}"
    return f"does not answer, and may hang: {process}" if document.get("silent") else f"running: {process}"


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(timespec="seconds")
