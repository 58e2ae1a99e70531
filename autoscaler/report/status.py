"""What `status` shows, from the store alone: it must answer while Grid Engine and the provider do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from autoscaler.report.document import reason_part
from autoscaler.report.requests import asked_line, requests_document
from autoscaler.report.schema import SCHEMA
from autoscaler.report.wording import count, duration
from autoscaler.store.lock import Holder
from autoscaler.store.store import Store


@dataclass(frozen=True, slots=True)
class Now:
    """What the store does not know."""

    at: float
    cell: str
    provider: str | None
    serving: bool
    """Whether an autoscaler holds the cell's lock."""
    holder: Holder | None


def status(store: Store, now: Now) -> dict[str, Any]:
    """The whole screen as plain values."""
    memory, wishes = store.memory.load(), store.wishes.load()
    last = next(iter(store.history.passes(1)), None)
    said: Mapping[str, Any] = {} if last is None else last.document
    renting = [life for life in store.history.lifetimes() if life.ended_at is None]
    prices = [life.price_per_hour for life in renting]
    asked = requests_document(store.requests.load(now.at), now.at, store.history.living())
    return {
        "schema": SCHEMA,
        "now": _at(now.at),
        "cell": now.cell,
        "provider": now.provider,
        "lock": asdict(now.holder) | {"since": _at(now.holder.since)} if now.holder else None,
        "serving": now.serving,
        "sentence": None if last is None else last.sentence,
        "pass": memory.passes,
        "pass_at": None if last is None else _at(last.at),
        "pass_age_s": None if last is None else round(now.at - last.at, 3),
        "waiting": said.get("waiting"),
        "counted": said.get("counted"),
        "fitting": said.get("fitting"),
        "workers": len(renting),
        "persistent": said.get("workers", {}).get("persistent"),
        "price_per_hour": round(sum(price for price in prices if price is not None), 6),
        "unknown_prices": sum(price is None for price in prices),
        "request_sets": asked["request_sets"],
        "asked": asked_line(asked),
        "paused": {"by": wishes.paused_by} if wishes.paused else None,
        "stop": wishes.stop,
        "keep": sorted(wishes.keep),
        "drain": sorted(wishes.drain),
        "brake": None if memory.brake is None else reason_part(memory.brake),
        "stopped": dict(memory.stopped),
    }


def status_pairs(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The same for people, the calm lines left out."""
    yield "cell", told["cell"]
    yield "autoscaler", _who(told)
    yield "provider", told["provider"] or "none set (CP_CAP_AUTOSCALE_PROVIDER)"
    if told["sentence"] is None:
        yield "last news", "none: no pass was ever made here"
    else:
        yield "last news", f"{told['sentence']} ({duration(told['pass_age_s'])} ago; {told['pass']} passes so far)"
        waiting = count(told["waiting"], "task")
        yield "waiting", f"{waiting}, {told['counted']} counted, {told['fitting']} of these can start"
    unknown = f" and {told['unknown_prices']} of unknown price" if told["unknown_prices"] else ""
    yield "workers", f"{told['workers']} additional, {told['persistent'] or 0} persistent"
    yield "price", f"{told['price_per_hour']:.3f} an hour{unknown}"
    if told["asked"]:
        yield "asked for", told["asked"]
    if told["paused"]:
        yield "paused", f"by {told['paused']['by']}; `sge-autoscaler resume` goes on"
    if told["stop"]:
        yield "stopping", f"{told['stop']}: all workers are given back"
    if told["brake"]:
        yield "brake", f"{told['brake']['text']}; `sge-autoscaler resume` goes on"
    for array, why in told["stopped"].items():
        yield "no launches", f"for {array}: {why}"
    for name, phrase in (("keep", "kept by command"), ("drain", "drained by command")):
        if told[name]:
            yield phrase, ", ".join(told[name])


def _who(told: Mapping[str, Any]) -> str:
    if not told["serving"]:
        return "not running"
    if told["lock"] is None:
        return "running"
    return f"running: process {told['lock']['pid']} on {told['lock']['host']} since {told['lock']['since']}"


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(timespec="seconds")
