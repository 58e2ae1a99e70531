"""What commands that simulate share: conditions, policies, workloads, progress, the page."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoscaler.commands._output import echo
from autoscaler.errors import AutoscalerError, SettingsError, suggestion
from autoscaler.new_folder import write_file

if TYPE_CHECKING:
    from autoscaler.commands.context import Invocation
    from autoscaler.core.model.fleet import Bucket
    from autoscaler.core.policy import Policy
    from autoscaler.settings import Settings
    from autoscaler.simulation.accounting import AccountingOptions
    from autoscaler.simulation.candidates import Candidate, Conditions
    from autoscaler.simulation.cell import CellConfiguration
    from autoscaler.simulation.cloud import Billing
    from autoscaler.simulation.market import Market
    from autoscaler.simulation.page import Section
    from autoscaler.simulation.past import Past
    from autoscaler.simulation.results import Document
    from autoscaler.simulation.run import Simulation
    from autoscaler.simulation.workload import Workload


TODAY = "today"
INTERRUPTED = 130
TIMEOUT = 30.0
"""Seconds for the cell to show a part of its configuration."""
AT_ONCE = 1.0
"""Seconds within which a second Ctrl-C is none."""
SAID_AT_MOST = 6
"""Names in an assumption."""
_RULES = ("static", "one-per-job", "karpenter", "cloud-pipeline", "oracle")
"""Those of `simulation.baselines`, which is imported when it is needed."""


MEMORY_COMPLEXES = (
    "h_core", "h_data", "h_fsize", "h_rss", "h_stack", "h_vmem", "mem_free", "mem_total", "mem_used", "s_core",
    "s_data", "s_fsize", "s_rss", "s_stack", "s_vmem", "swap_free", "swap_rate", "swap_rsvd", "swap_total",
    "swap_used", "virtual_free", "virtual_total", "virtual_used",
)  # fmt: skip
"""Of type MEMORY in `qconf -sc` as shipped."""


@dataclass(frozen=True)
class SimulationOptions:
    """The options of the command, besides what is tried and on what."""

    catalog: Path | None = None
    """None: the one that the settings in force name."""
    market: Path | None = None
    most: int | None = None
    skip: int = 0
    boot: float = 120.0
    join: float = 10.0
    spread: float = 0.0
    failing: float = 0.0
    billing_minimum: float | None = None
    """None: as the settings in force have it; so is the step."""
    billing_step: float | None = None
    schedule_interval: float = 15.0
    weight_priority: float = 1.0
    weight_urgency: float = 0.1
    weight_waiting_time: float = 0.0
    fixed_order: bool = False
    one_host: int | None = None
    consumables: tuple[str, ...] = ()
    user_slots: int | None = None
    dependencies: bool = False
    seed: int = 1
    priced_by: str = "the included catalogue"
    """What prices are of, for the assumptions."""
    currency: str = "USD"
    for_all: bool = False
    """Whether the catalogue holds for all that is tried, also where other settings name another one."""


def in_force(invocation: Invocation, options: SimulationOptions) -> SimulationOptions:
    """The options, completed by the settings in force: their catalogue, and the billing of their first queue. Raises
    SettingsError.
    """
    from autoscaler.commands._own_catalog import own_catalog
    from autoscaler.providers.catalog import currency_of

    settings = _loaded(invocation, {}, None)
    chosen = settings.process.currency
    if options.catalog is not None:
        priced_by = f"--catalog {options.catalog}"
        options = replace(options, priced_by=priced_by, currency=currency_of(options.catalog, chosen), for_all=True)
    elif (own := own_catalog(settings, invocation.environ)) is not None:
        setting, file = own
        options = replace(options, catalog=file, priced_by=f"{file} ({setting})", currency=chosen or currency_of(file))
    else:
        options = replace(options, currency=chosen or "USD")
    for queue in list(settings.queues.values())[:1]:
        minimum, step = options.billing_minimum, options.billing_step
        options = replace(
            options,
            billing_minimum=queue.billing_minimum if minimum is None else minimum,
            billing_step=queue.billing_step if step is None else step,
        )
    return options


def buckets_of(catalog: Path | None, currency: str) -> Sequence[Bucket]:
    """All offers. Those of which the price is in another currency than the catalogue's own have no known price. Raises
    SettingsError.
    """
    from autoscaler.providers.catalog import currency_of, load_catalog

    found = load_catalog(catalog)
    if currency_of(catalog) != currency:  # the settings say what all prices are in
        return found.buckets()
    return tuple(
        bucket if found.offers[bucket.type.name].currency == currency else replace(bucket, price_per_hour=None)
        for bucket in found.buckets()
    )


def shown_by_qconf(*words: str) -> str:
    """Raises AutoscalerError if the cell does not answer."""
    from autoscaler.process import ReadOnlyRunner, SystemRunner
    from autoscaler.sge.admin import Administrator

    return Administrator(ReadOnlyRunner(SystemRunner()), timeout=TIMEOUT).show(*words)


def scheduler_of_cell() -> dict[str, str]:
    """The scheduler's configuration; empty if the cell does not answer."""
    from autoscaler.simulation.scheduler_settings import scheduler_values

    try:
        return scheduler_values(shown_by_qconf("-ssconf"))
    except AutoscalerError:
        return {}


def conditions_of(options: SimulationOptions) -> Conditions:
    from autoscaler.simulation.candidates import Conditions
    from autoscaler.simulation.cell import CellConfiguration, Weights
    from autoscaler.simulation.cloud import Billing, Delays
    from autoscaler.simulation.market import STILL, read_market

    usual = Billing()
    billing = Billing(
        usual.minimum if options.billing_minimum is None else options.billing_minimum,
        usual.granularity if options.billing_step is None else options.billing_step,
    )
    if options.schedule_interval <= 0 or billing.granularity <= 0:
        raise SettingsError("--schedule-interval and --billing-step must be more than 0 s")
    buckets = buckets_of(options.catalog, options.currency)
    types = [bucket.type.name for bucket in buckets]
    return Conditions(
        buckets,
        CellConfiguration(
            schedule_interval=options.schedule_interval,
            fixed_order=options.fixed_order,
            weights=Weights(options.weight_priority, options.weight_urgency, options.weight_waiting_time),
            consumables=tuple(dict.fromkeys(options.consumables)),
            user_slots=options.user_slots,
        ),
        Delays(options.boot, options.join, spread=options.spread, failing=options.failing),
        billing,
        market=STILL if options.market is None else read_market(options.market, types),
        seed=options.seed,
    )


def assumed(conditions: Conditions, candidates: Iterable[Candidate], options: SimulationOptions) -> list[str]:
    """What is taken where nothing says it. `candidates`: what is tried under these conditions, made of `options`."""
    candidates = list(candidates)
    delays, weights, each_pass = conditions.delays, conditions.cell.weights, conditions.durations
    polled = sorted({candidate.durations_in(conditions).polling_delay for candidate in candidates})
    known = ", ".join(f"{kind} {seconds:.2g} s" for kind, seconds in each_pass.of_kind.items())
    kinds = f" ({known})" if known else ""
    order = "in one order" if conditions.cell.fixed_order else "the least loaded first"
    return [
        f"Machines boot in {delays.boot:.0f} s and report {delays.join:g} s after they were enrolled"
        + (f", spread {delays.spread:.2g}" if delays.spread else "")
        + (f"; {delays.failing:.1%} never boot." if delays.failing else "; none fails."),
        *_assumed_of_market(conditions.market),
        *(
            []
            if (most := conditions.cell.user_slots) is None
            else [f"Jobs of one user hold at most {most} slots at once."]
        ),
        f"The scheduler runs {_assumed_of_runs(conditions.cell)}, makes no reservations, and fills hosts {order}. "
        f"Its weights: priority {weights.priority:g}, urgency {weights.urgency:g}, waiting time "
        f"{weights.waiting_time:g}.",
        f"A pass takes {each_pass.observing:.2g} s, and {each_pass.acting:.2g} s for each action{kinds}; without "
        f"events the next one comes after {' or '.join(f'{seconds:g}' for seconds in polled)} s.",
        f"Prices are those of {options.priced_by}"
        + (", and those of --market" if conditions.market.prices else "")
        + "; disks, traffic and the master cost nothing here.",
        *(
            f"Prices of {name} are those of {catalog}."
            for name, catalog in ((each.name, each.priced_by) for each in candidates)
            if catalog
        ),
        *_assumed_of_billing(conditions.billing, candidates),
        *_assumed_of_consumables(conditions, candidates),
    ]


def _assumed_of_runs(cell: CellConfiguration) -> str:
    """When the scheduler runs."""
    flushes = {"a submission": cell.flush_after(end=False), "an end": cell.flush_after(end=True)}
    at_once = " or ".join(what for what, flush in flushes.items() if 0 < flush <= 1)
    later = "".join(f", {flush:g} s after {what}" for what, flush in flushes.items() if flush > 1)
    often = f"every {cell.schedule_interval:g} s"
    return (f"at once after {at_once}" if at_once else often) + later


def _assumed_of_billing(billing: Billing, candidates: Sequence[Candidate]) -> list[str]:
    said = [f"Machines are billed in steps of {billing.granularity:g} s, at least {billing.minimum:g} s."]
    paid = billing.minimum, billing.granularity
    arrays = ((each.name, each.policy.node_arrays[0]) for each in candidates if not each.rule)
    others = [name for name, array in arrays if (array.billing_minimum, array.billing_step) != paid]
    if others:
        more = f" and {len(others) - SAID_AT_MOST} more" if len(others) > SAID_AT_MOST else ""
        named = ", ".join(others[:SAID_AT_MOST])
        said.append(f"Other billing is what the settings have by which these decide: {named}{more}.")
    return said


def _assumed_of_consumables(conditions: Conditions, candidates: Sequence[Candidate]) -> list[str]:
    """Requests of what no worker has are told: jobs with them get none."""
    from autoscaler.simulation.candidates import without

    missing: dict[str, list[str]] = {}
    for candidate in candidates:
        for name in without(candidate, conditions):
            missing.setdefault(name, []).append(candidate.name)
    return [
        f"With these settings no worker has {name}: jobs that request it wait ({', '.join(names[:SAID_AT_MOST])})."
        for name, names in missing.items()
    ]


def _assumed_of_market(market: Market) -> list[str]:
    said = []
    if market.limits:
        said.append(f"{len(market.limits)} shortages and quotas of --market hold; else the cloud is never full.")
    else:
        said.append("The cloud is never full.")
    if market.interruptions_per_hour:
        said.append(
            f"Of spot machines {market.interruptions_per_hour:g} an hour are taken back, {market.notice:g} s after a "
            "notice; every task may run again, from its beginning."
        )
    return said


def policy_of(invocation: Invocation, changed: dict[str, str], file: Path | None = None) -> Policy:
    """The policy of these settings with some changed, or of a file. Raises SettingsError, also for a changed name that
    is no setting.
    """
    return tried_settings(invocation, changed, file).policy(master="master")


def tried(
    name: str,
    invocation: Invocation,
    changed: dict[str, str],
    options: SimulationOptions,
    *,
    file: Path | None = None,
    rule: str = "",
) -> Candidate:
    """The policy, the polls and the catalogue of these settings. Raises SettingsError as `policy_of` does, and if their
    prices are in another currency than those in force.
    """
    from autoscaler.commands._own_catalog import own_catalog
    from autoscaler.providers.catalog import currency_of
    from autoscaler.simulation.candidates import Candidate

    settings = tried_settings(invocation, changed, file)
    policy = replace(settings.policy(master="master"), currency=options.currency)
    made = Candidate(name, policy, rule, settings.process.polling_delay)
    own = None if options.for_all else own_catalog(settings, {**invocation.environ, **changed})
    if own is None or own[1] == options.catalog:
        return made
    setting, catalog = own
    currency = settings.process.currency or currency_of(catalog)
    if currency != options.currency:
        raise SettingsError(
            f"its prices are in {currency} ({setting}), those of {options.priced_by} in {options.currency}: they "
            "cannot be compared; name one catalogue for all with --catalog"
        )
    return replace(made, buckets=buckets_of(catalog, currency), priced_by=f"{catalog} ({setting})")


def tried_settings(invocation: Invocation, changed: dict[str, str], file: Path | None = None) -> Settings:
    """Raises SettingsError."""
    from autoscaler.providers.registry import known_prefixes
    from autoscaler.settings.loading import is_setting, unknown_setting

    unknown = [name for name in changed if not is_setting(name)]
    if problems := [why for name in unknown if (why := unknown_setting(name, known_prefixes()))]:
        raise SettingsError("; ".join(problems))
    settings = _loaded(invocation, changed, file)
    if settings.process.provider:
        _refuse_unknown(settings.process.provider)
    if not settings.queues:
        raise SettingsError("these settings have no queue to scale")
    return settings


def _loaded(invocation: Invocation, changed: dict[str, str], file: Path | None) -> Settings:
    """Nothing is rented: the provider need not be chosen, nor its credentials or library be there."""
    from autoscaler.providers.registry import known_prefixes
    from autoscaler.settings import load_settings

    return load_settings({**invocation.environ, **changed}, file, known_prefixes=known_prefixes)


@cache
def _refuse_unknown(provider: str) -> None:
    """Raises SettingsError, which says which providers there are."""
    from autoscaler.providers.registry import known, provider_class

    if ":" not in provider and provider not in known():
        provider_class(provider)


def largest_host(policy: Policy, buckets: Sequence[Bucket]) -> int:
    from autoscaler.simulation.candidates import allowed_offers

    offers = allowed_offers(policy, buckets)
    return max(1, max(offer.type.vcpus for offer in offers) - policy.node_arrays[0].free_cores)


def workload_of(source: str, options: SimulationOptions, one_host: int, past: Past | None = None) -> Workload:
    import itertools

    read = _read(source, options, one_host) if past is None else past.workload(of_accounting(options, one_host))
    for name in options.consumables:
        _check_consumable(name, read)
    if options.skip:
        jobs = iter(read.jobs)
        read.earlier = tuple(itertools.islice(jobs, options.skip))
        read.jobs = jobs
        read.expected = max((read.expected or 0) - options.skip, 0) or None
        read.assumptions.append(f"The first {options.skip:,} jobs ran before; estimates know those that had ended.")
    if options.most is not None:
        read.jobs = itertools.islice(read.jobs, options.most)
        read.expected = min(options.most, read.expected or options.most)
        read.assumptions.append(f"Only the first {options.most:,} jobs are taken.")
    if past is None:  # what happened is compared from its own second 0 on
        read.begin_with_first_job()
    return read


def _check_consumable(name: str, read: Workload) -> None:
    """Say so if no job asks for it. Jobs that are read one by one are not asked: raises SettingsError if no cell has it
    as Grid Engine is shipped.
    """
    if not isinstance(read.jobs, list):
        refuse_unknown_consumable(name, MEMORY_COMPLEXES)
    elif not any(name == one for job in read.jobs for one, _ in job.hard):
        read.assumptions.append(f"No job requests {name}, so it decides nothing.")


def refuse_unknown_consumable(name: str, known: Sequence[str]) -> None:
    """`known`: complexes that may be counted. Raises SettingsError."""
    if name not in known:
        raise SettingsError(f"--memory {name}: no complex of this name can be counted; {suggestion(name, known)}")


def _read(source: str, options: SimulationOptions, one_host: int) -> Workload:
    from autoscaler.simulation.accounting import read_accounting
    from autoscaler.simulation.generated import Generated, generate
    from autoscaler.simulation.swf import SwfOptions, read_swf

    kind, _, rest = source.partition(":")
    if kind == "generated":
        numbers = rest.split(":") if rest else ["1000"]
        if len(numbers) > 3 or not all(number.isdecimal() for number in numbers) or not int(numbers[0]):
            raise SettingsError(
                f"{source}: write generated:JOBS, generated:JOBS:SEED or generated:JOBS:SEED:DAYS, as generated:1000:7"
            )
        jobs, seed, days = (int(number) for number in (*numbers, *("1000", "1", "7")[len(numbers) :]))
        if not days:
            raise SettingsError(f"{source}: 0 days have no room for jobs")
        return generate(Generated(jobs, seed, one_host, days=days))
    path = Path(source)
    if path.name.endswith((".swf", ".swf.gz")):
        return read_swf(path, SwfOptions(one_host, "".join(options.consumables[:1]), dependencies=options.dependencies))
    return read_accounting(path, of_accounting(options, one_host))


def of_accounting(options: SimulationOptions, one_host: int) -> AccountingOptions:
    from autoscaler.simulation.accounting import AccountingOptions

    return AccountingOptions(one_host, requests=options.consumables)


def compared(text: str) -> list[str]:
    """What the value of --compare names. A comma also separates the values of a setting: `NAME=a,b+OTHER=c`."""
    names: list[str] = []
    for part in filter(None, text.split(",")):
        if names and "=" in names[-1] and not _begins(part):
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names


def _begins(part: str) -> bool:
    """Whether something to try begins here, and not the next value of a setting."""
    rule = part.partition(":")[0]
    return "=" in part.partition("+")[0] or part == TODAY or rule in _RULES or Path(part).is_file()


def candidate_of(invocation: Invocation, name: str, options: SimulationOptions) -> Candidate:
    """The policy that a name of --compare stands for. Raises SettingsError."""
    if name.split(":")[0] in _RULES:
        return tried(name, invocation, {}, options, rule=name)
    if name == TODAY:
        return tried(name, invocation, {}, options)
    try:
        if Path(name).is_file():
            return tried(Path(name).stem, invocation, {}, options, file=Path(name))
        if "=" in name:
            return tried(name, invocation, dict(pair.partition("=")[::2] for pair in name.split("+")), options)
    except SettingsError as error:
        raise SettingsError(f"--compare {name}: {error}") from error
    raise SettingsError(
        f"--compare {name}: there is no settings file of this name, and no such rule; write today, a file, "
        f"NAME=VALUE, or one of {', '.join(_RULES)}"
    )


def deciding(policy: Policy) -> Policy:
    """What of a policy decides in a simulation: names that this machine has are of no host there."""
    from autoscaler.simulation.candidates import simulated

    return simulated(replace(policy, host_names=()))


def simulated_alike(candidates: Sequence[Candidate]) -> list[str]:
    """Which of them are simulated as one before them, in a sentence each."""
    found: list[str] = []
    others: list[tuple[str, object]] = []
    for one in candidates:
        decides = one.rule, deciding(one.policy), one.polling_delay, one.buckets
        first = next((name for name, other in others if other == decides), None)
        if first is None:
            others.append((one.name, decides))
        else:
            found.append(f"{one.name} is simulated as {first}: nothing that matters here is set otherwise.")
    return found


class Progress:
    """A line on the terminal: how far the simulation is, and how long it will take."""

    def __init__(self, read: Workload) -> None:
        self._expected = read.expected
        self._began, self._last = time.monotonic(), 0.0
        self._on = sys.stderr.isatty()

    def show(self, name: str, now: float, tasks: int) -> None:
        at = time.monotonic()
        if not self._on or at - self._last < 0.5:
            return
        self._last = at
        share = min(1.0, tasks / self._expected) if self._expected else 0.0
        left = (at - self._began) * (1 - share) / share if share else 0.0
        remaining = f", about {left:.0f} s left" if share else ""
        sys.stderr.write(f"\r\x1b[K{name}: day {now / 86400:.1f}, {tasks:,} tasks ({share:.0%}){remaining}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._on:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class Stopper:
    """Ctrl-C ends the simulation and shows what it had until then; a second one ends the command, unless it comes at
    once: `timeout` sends every signal twice.
    """

    def __init__(self) -> None:
        self.asked = False
        self._asked_at = 0.0
        self._running: Simulation | None = None

    def watch(self, simulation: Simulation) -> None:
        self._running = simulation
        if self.asked:  # while the workload was read
            simulation.stop()

    @property
    def exit_code(self) -> int:
        """Of a command whose output may be a part of what was asked for."""
        return INTERRUPTED if self.asked else 0

    def __enter__(self) -> Stopper:
        self._before = signal.signal(signal.SIGINT, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _stop(self, *_: object) -> None:
        if self.asked and time.monotonic() - self._asked_at > AT_ONCE:
            raise KeyboardInterrupt
        if not self.asked:
            self.asked, self._asked_at = True, time.monotonic()
        if self._running is not None:
            self._running.stop()


def refuse_unwritable(file: Path | None) -> None:
    """Raises SettingsError where what is asked for could not be written at the end."""
    if file is not None and not os.access(file if file.exists() else file.parent, os.W_OK):
        raise SettingsError(f"cannot write {file}: choose a place that is yours to write")


def write_page(
    page: Path, documents: Sequence[Document], assumptions: Sequence[str], backtest: Document | None = None
) -> None:
    """Write the self-contained page of a comparison. Raises SettingsError if that is not possible."""
    from autoscaler.simulation.page import compared_section

    write_sections(page, [compared_section(documents, assumptions, backtest)], assumptions)


def write_sections(page: Path, sections: Sequence[Section], assumptions: Sequence[str], **more: Any) -> None:
    """Write the self-contained page. `more`: as `page_text` has it. Raises SettingsError if that is not possible."""
    from autoscaler.simulation.page import page_text

    try:
        write_file(page, page_text(sections, assumptions, **more).encode(), mode=0o644)
    except OSError as error:
        raise SettingsError(f"cannot write {page}: {error.strerror}") from error
    echo(f"{page}: written", err=True)
