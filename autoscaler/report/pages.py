"""The pages made from declarations: docs/reasons.md, docs/json.md, docs/worker-phases.md and conf/plan.schema.json.

Run as `python -m autoscaler.report.pages [--check] [ROOT]`. `--check` writes nothing and fails (1) on a stale page.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from autoscaler.core.transitions import RULES, SHOWN, phases_of, steps
from autoscaler.core.workers.drain import WAY_OUT
from autoscaler.core.workers.phases import (
    BY_PHASE,
    CONDITIONS,
    DECIDING,
    ORDERED_SENTENCE,
    PHASES,
    Phase,
    Procedure,
)
from autoscaler.core.workers.step import Rule, Transition
from autoscaler.report import schema
from autoscaler.report.reasons.table import SUBJECTS

_REASONS_HEAD = """# Reasons

<!-- Made by `python -m autoscaler.report.pages`; change the rows in autoscaler/report/reasons/ instead. -->

Every action and every inaction has a reason: a stable code, and a sentence made of its facts.
`sge-autoscaler explain JOB` or `explain HOST` prints it with what led to it. Words in braces are facts. After the arrow
stands what you can do, and after "Administrators:" what only they can. Where there is nothing for you, nothing needs to
be done. `qalter -l` replaces all requests of a job: name all of them again.
"""
_NOTHING = "Nothing needs to be done"
_ASK = "Ask an administrator."
_OR_ASK = re.compile(r", or ask an administrator[^.;]*\.$|(?<=[.;]) [Ii]f that lasts, ask an administrator\.$")
"""What an owner reads from the word "Administrators:" that follows."""
_AGAIN = " (name all requests again)"
_LONG = 15
"""Words of a remedy that is not repeated, but named by the reason that has it first."""

_JSON = """# JSON

<!-- Made by `python -m autoscaler.report.pages`; change autoscaler/report/schema.py instead. -->

`sge-autoscaler plan --json` and `once --json` print one document, `schema` 1.
[conf/plan.schema.json](../conf/plan.schema.json) describes every field of its parts; the site has tables.
Fields may be added; none is renamed or removed.
Durations end in `_s` and are seconds, times are ISO 8601 with offset, prices are an hour's.

Other commands reuse its parts; objects are in a list:

| command | prints |
|---|---|
| `jobs --json` | `schema`, `now`, `notes`: a list of Reason, `jobs`: a list of JobCategory, one a job; \
with `--running` also `running`: objects with `job`, `owner`, `state`, `slots`, `hosts`, `started_at`, `runs_s` |
| `workers --json` | `schema`, `now`, `workers`: a list of Worker, each with `instance_type`, `node_array`, \
`group_id`, `state`, `price_type`, `price_per_hour`, `currency`, `slots`, `used`, `created_at`, `phase`, \
`conditions` (\
objects with `name`, `since`), `load` (load average that its execd reported last) besides |
| `orphans --json` | `schema`, `now`, `orphans`: objects with `id`, `name`, `host` (its execution host), \
`busy`, `instance_type`, `node_array`, `state`, `price_per_hour`, `currency`, `created_at`, `age_s`, \
`message` (its provider's last words), `reason` |
| `status --json` | `schema`, `now`, `cell`, `serving`, `silent` (it serves and did not answer), \
`sentence` (of the last pass with news), `sentence_at`, `sentence_age_s`, `pass`, \
`pass_at`, `pass_age_s`, `disabled_by_hand` (workers that a person disabled), \
`set_aside` (by worker: why only a person puts it into service or ends it), `waiting`, `counted`, `fitting`, \
`workers` (how many), `ordered` (how many workers no listing shows yet), \
`persistent` (how many), `price_per_hour`, `currency`, `unknown_prices`, `prices_as_of`, \
`budgets`: objects with `owner`, `budget`, `spent` (null: not yet known), `level` (0, 50, 80 or 100), \
`action` and `until`, \
`failed_workers` (machines that are stopped or do not come up: objects with `worker_id`, `name`, `message`), \
`lost_jobs` (by execution host whose machine is gone: a Reason with the jobs that are listed as running until \
a person deletes them), \
`refused_ends`, `keep`, `drain` (names), `asked_by` (by name), \
`failures` (launches that failed in the last half hour), `backoff` (of buckets), \
`unanswered` (orders): lists of objects, \
`request_sets`, `requested` (the same in a line), `log_level` (`level` and `by`, or null: as settings say), \
`paused`, `circuit_breaker`, `stop`, `stopped_by`, \
`stopped`, `protected` (a list of Reason: node arrays whose launches help no jobs), `provider`, `lock`, \
`troubles` (a list of sentences: why Grid Engine is polled, or polled less often than set), \
`notifications` (of operators: `waiting` to be sent, `failing_since`, `message`, `dropped`, `sent_at`) |
| `notify --json` | `schema`, `waiting`, `failing_since`, `message`, `dropped`, `sent_at`, \
`causes` (what holds: objects with `kind`, `subject`, `since`, `notified_at`, `reason`, `remedy`); \
with `--test`: `file`, `services` (objects with `line`, `service`, `why`: empty if it took the message) |
| `requests --json` | `schema`, `now`, `request_sets`: objects with `name`, `by`, `at`, `expires_at`, \
`left_s` (both null for ever), `arrays` (names of all that it names) and `targets`, objects with \
`node_array` and `count`, `cores` or `groups` with `group_cores` or `group_count`; `node_arrays`: \
objects with the sums of these, `groups_of_workers` (how many of `groups` are of `group_count`), `nodes` \
(created one by one), \
`workers` (machines there, all together), \
`name`, `dynamic`, `extends`, `machine_types`, `unknown_types` (of these, what the provider does not offer), \
`requested` (false: it goes with its last worker), `max_count`, `max_core_count` \
(limits that requests set, or null), `keep_alive` \
(sets for which its workers stay even if idle), `defined_by` (by field, the set that defined it: `request_set`, `by`, \
`expires_at`; other fields are the array's own); `nodes`: \
objects with `id`, `name`, `node_array`, `created_at`, `request_id`, `worker_id` |
| `pause`, `resume`, `retry`, `keep`, `drain`, `stop --no-wait`, `record`, `serve passwd`, `serve token create` and \
`revoke`, `requests --end`, `jetpack`, `cell down`, `catalog refresh` and `sizes`, `config import` and `docs`, \
`convert` with `--json` | `schema`, `done` (whether anything changed), `message`, and what was named or written |
| `stop --json`, `cell up --json`, `serve --json` | a line is an object: `schema`, `message`, and what it is about; \
what is logged is an object a line, too |
| `config check --json` | `schema`, `valid`, `errors`, `notes` (lists of sentences) |
| `worker config get --json` | `schema`, `key`, `value` (text, or an object where others stand below the key), \
`default` (whether it is the given one) |
| `cell list --json` | `schema`, `cells` (names) |
| `demo --json` | `schema`, `seconds`, `tasks` (objects with `task`, `host`, `waited_s`), `workers` (objects with \
`name`, `id`, `instance_type`, `rented_s`, `price_per_hour`, `cost`); progress goes to standard error |
| `serve token list --json`, `serve calls --json` | `schema`, `tokens` or `calls`: a list of objects |
| `autoscale --json` | `request_set`, `expires_at`, `arrays` (names), `note` (empty unless it is acted on late) |
| `history --json` | `schema`, `now`, `since`, `until`, `step_s`, `periods`: objects with `at`, \
`observed_s`, means of `waiting`, `counted`, `fitting`, `running`, `slots`, `slots_used`, `persistent`, \
`price_per_hour`; `most_waiting`, `longest_wait_s`; `began` (jobs and tasks), `mean_wait_s`, \
`longest_waited_s`; `cost`; `arrays`: by name means of `coming`, `busy`, `idle`, `leaving`, `aside`, \
`cores`, `price_per_hour`, `unknown_prices`, `target_workers`, `target_cores`, and `most` (machines at a time) |
| `cost --json` | `schema`, `now`, `by`, `since`, `until`, `estimate` (true), `leaves_out` (sentences), `known_since` \
(null, or when the record begins, if that is later), `unknown_prices` (`workers`, `rented_h`), `unseen` (the part of \
the cost that is uncertain, since nothing was observed when workers ended), `currencies`: objects with \
`currency`, `cost`, `used`, `starting`, `idle`, `slot_h`, `rented_h`, `workers`, `found` (number of rows) and \
`rows`, which have the same and `key`; amounts to the millionth. Where rows are of jobs, `cost` is the sum of theirs, \
of `starting` and of `idle` |
| `cost --reconcile FILE --json` | `schema`, `bill` (AWS, AWS Data Exports or Azure), `since`, `until`, `currency`, \
`billed_currencies`, `sum` and `workers`: objects with `worker_id`, `estimate`, `billed`, `difference`, \
`time`, `price`, `other` (these three add up to the difference), `why` (empty, or why it is on one side only) |
| `events --json` | `schema`, `now`, `events`: objects with `id` (grows), `kind` (submitted, counted, \
not_counted, ordered, failed, joined, disabled, enabled, gone, started, ended), `at` and `until` (of several jobs the \
first and the last time), `seen_at` (of the pass that noticed it), `jobs` (numbers as ranges, `4-7,9`), `tasks` (of \
one array, likewise), `count` (jobs, of arrays tasks), `owner` and `project` (of a launch those that all its jobs \
have; the project once Grid Engine reported it, with the end of a job at the latest), `hosts`, `queue`, `worker_id`, \
`order_id`, `code` (of the reason; of ended: ended, failed, unknown or unlisted; of gone also: terminated; of failed: \
the kind of failure), `message`, `text` (the event for people); with `--follow` one of these objects a line |
| `top --json` | `schema`, `now`, `status`, `workers`, `events`: the documents of these commands; `queue`, `passes`: \
those of [the answers](operate/answers.md#for-programs) |
| `explain JOB --json` | `schema`, `job`, `state` (waiting, running, ended; unseen: submitted after the last pass, \
with `next_pass_s`, and `by_number` if Grid Engine was not asked), `now`, `waiting`: a list of JobCategory, \
`running` (with the verdict on its worker), `launches`: a list of Launch that may serve it, \
`waited`: the last verdict while it waited, `launched`: orders for jobs such as it, \
`ended`: how each start ended, from accounting, `cost`: its shares of the workers that it ran on (`estimate`: true; \
`currencies`: objects with `currency`, `cost` and `slot_h`; `workers` and `unknown_prices`: how many), \
or null, `estimate`: of a waiting or running job, how long it will run in all, by earlier jobs like it (`low_s`, \
`median_s`, `high_s`, `earlier`: how many jobs, `like`: in what, `error`: the factor by which such estimates were off \
lately), or null, `events`: its events, as in `events --json`, \
`rules`: the [rules](rules.md) for it, and the nodes that meet them; \
`caps`: limits that callers set for node arrays that may serve it, objects with `node_array`, `cap`, \
`limit`, `request_set`, `by`, `expires_at` (these three null: the definition of the array) |
| `explain HOST --json` | `schema`, `host`, `now`, the fields of Worker, `phase`, `conditions`, `actions`, \
`instances`, `machine`, `remembered`, `rules`; of a worker that is gone: its times, `cost`, `events` |
| `explain ORDER --json` | `schema`, `order`, `now`, `at`, `node_array`, `group_id`, `open`, `attempts` (\
objects with `instance_type`, `count`, `price_per_hour`, `sent_at`, `answered_at`, `workers`, `message`), `events` |

`reason` is the same everywhere; [reasons.md](reasons.md) lists its codes.
"""

_PHASES_HEAD = """# Worker phases

<!-- Made by `python -m autoscaler.report.pages`; change the rows of autoscaler/core/workers/phases.py
and of the modules that autoscaler/core/transitions.py names instead. -->

A worker has one phase: how far it is on its way from order to end. Besides, conditions hold, each with a time since
when. Both are derived anew in each pass, from what the provider and Grid Engine show and from the few times and marks
that the store keeps. If the store is lost, no worker is removed before two new observations, except what its provider
or cloud ends anyway. A host that the autoscaler had disabled then counts as disabled by a person and is left alone.

An arrow with an action is a step of the autoscaler. The other arrows are changes that an observation shows. Every phase
but the first may also become `ending` or `gone` if the provider reports that. A ready worker may be
disabled for a while: see *cordoned* and *disabled by hand*.
"""
_STEPS = """The lists below decide. A pass reads the rules of a procedure from the top, and of a rule that applies its
rows; the worker takes the step of the first row that holds. In brackets are the phases in which it may hold, in some of
which an earlier rule may take every worker; after the arrow is the phase that follows, if it is another. An action
waits in three cases: the autoscaler is paused or its circuit breaker is on (unless a person requested the action, or it
only protects jobs); the same action was planned a moment ago, so that its effect may not show yet; the provider refused
it. A worker that somebody keeps is not disabled, removed or fenced.
"""
_MOST_VALUES = 20
"""A field with more values than that is a `string` here: reasons have a page of their own."""

_PARTS: tuple[type[BaseModel], ...] = (
    schema.PlanDocument,
    schema.ReasonPart,
    *schema.ACTION_PARTS,
    *schema.VALUE_PARTS,
    schema.JobCategoryPart,
    schema.WorkerPart,
    schema.BucketPart,
    schema.TimingsPart,
)


def generated(root: Path) -> dict[Path, str]:
    """Every page by its place in a checkout."""
    return {
        root / "docs" / "reasons.md": "\n".join(_reasons()) + "\n",
        root / "docs" / "json.md": _JSON,
        root / "docs" / "worker-phases.md": "\n".join(_phases()) + "\n",
        root / "conf" / "plan.schema.json": json.dumps(schema.json_schema(), indent=2) + "\n",
    }


def main(arguments: Sequence[str]) -> int:
    only_check = "--check" in arguments
    places = [word for word in arguments if not word.startswith("-")]
    stale = [
        (path, text)
        for path, text in generated(Path(*places[:1])).items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    for path, text in stale:
        if only_check:
            sys.stderr.write(f"{path} is out of date: run `python -m autoscaler.report.pages`\n")
        else:
            path.write_text(text, "utf-8")
            sys.stdout.write(f"wrote {path}\n")
    return 1 if only_check and stale else 0


def _reasons() -> Iterator[str]:
    yield _REASONS_HEAD.rstrip()
    said: dict[str, str] = {}
    for heading, rows in SUBJECTS:
        yield from ("", f"## {heading}", "")
        for code, row in rows.items():
            remedy = _not_again(row.remedy, said)
            said[row.remedy] = code.value
            what = _remedies(row.owner_remedy, remedy)
            yield f"- **`{code.value}`** {row.sentence}" + (f"\\\n  → {what}" if what else "")


def json_parts() -> Iterator[str]:
    """Every part of a document with its fields, in Markdown: a page of the site."""
    yield "# JSON, field by field\n\nWhat [conf/plan.schema.json](../../conf/plan.schema.json) says, as tables."
    for part in _PARTS:
        yield from (
            "",
            f"## {_title(part)}",
            "",
            (part.__doc__ or "").strip(),
            "",
            "| field | type | |",
            "|---|---|---|",
        )
        for name, info in part.model_fields.items():
            yield f"| `{info.alias or name}` | {_type(part, info.alias or name)} | {_cell(info.description or '')} |"


def _phases() -> Iterator[str]:
    yield _PHASES_HEAD.rstrip()
    yield from ("", "```mermaid", "stateDiagram-v2", "    [*] --> ordered", *_arrows(), "    gone --> [*]", "```")
    yield from ("", "## Phases", "", "The first row that holds gives the phase.")
    yield from ("", f"- **{Phase.ORDERED}**: {ORDERED_SENTENCE}")
    yield from (f"- **{row.phase}**: {row.sentence}" for row in PHASES)
    yield from ("", "## Conditions", "", "Any number of them hold at a time.", "")
    yield from (f"- **{row.condition}**: {row.sentence}" for row in CONDITIONS)
    yield from ("", "## Who takes the next step", "")
    yield "Read from the top: the first row whose condition holds and that lists the worker's phase decides. The last"
    yield "rows have no condition. A *procedure* is a list of rules below; a worker *set aside* is only reported."
    yield ""
    yield from (f"- **{row.condition}** ({_listed(row.phases)}): {row.procedure}" for row in DECIDING)
    for procedure in Procedure:
        alone = [phase for phase, who in BY_PHASE.items() if who is procedure]
        if alone:
            yield f"- ({_listed(frozenset(alone))}): {procedure}"
    yield from ("", _STEPS.rstrip())
    for procedure in Procedure:
        yield from ("", f"## Steps: {procedure}")
        yield from _rules(RULES[procedure], phases_of(procedure))
    yield from ("", "## Leaving Grid Engine", "", "Every worker with an execution host leaves by these rows.")
    yield from _rules(WAY_OUT, frozenset(Phase))
    yield from ("", "## What an observation shows", "")
    for row in SHOWN:
        yield f"- ({_listed(row.sources)}) {row.when}" + (f" → {row.to}" if row.to else "")


def _rules(rules: Sequence[Rule[Any]], phases: frozenset[Phase]) -> Iterator[str]:
    yield ""
    for rule in rules:
        sources = [phases & rule.sources & row.sources for row in rule.rows]
        whole = frozenset[Phase]().union(*sources)
        if len(rule.rows) == 1:
            yield f"- `{rule.name}`{_in_brackets(whole)}: {_step(rule, rule.rows[0])}"
            continue
        yield f"- `{rule.name}`{_in_brackets(whole)}: {rule.why}"
        for row, own in zip(rule.rows, sources, strict=True):
            yield f"  - {'' if own == whole else f'{_in_brackets(own).strip()} '}{_step(rule, row)}"


def _in_brackets(phases: frozenset[Phase]) -> str:
    return "" if phases == frozenset(Phase) else f" ({_listed(phases)})"


def _arrows() -> Iterator[str]:
    """Of the diagram: one for each pair of phases, with the actions that lead from one to the other."""
    ways: dict[tuple[Phase, Phase], list[str]] = {}
    for row, sources in steps():
        for source in Phase:
            if source in sources and row.action is not None and row.to not in (None, source):
                words = ways.setdefault((source, row.to or source), [])
                word = row.action.__name__.lower()
                words += [word] if word not in words else []
    for shown in SHOWN:
        for source in Phase:
            end = shown.to in (Phase.ENDING, Phase.GONE) and source in _NOT_DRAWN
            if source in shown.sources and shown.to not in (None, source) and not end:
                ways.setdefault((source, shown.to or source), [])
    for (source, target), words in ways.items():
        yield f"    {source} --> {target}" + (f": {', '.join(words)}" if words else "")


_NOT_DRAWN = frozenset({Phase.BOOTING, Phase.JOINING, Phase.READY, Phase.DRAINING})
"""The provider may report the end in these phases, too; the diagram leaves those arrows out."""


def _step(rule: Rule[Any], row: Transition[Any]) -> str:
    action = "waits" if row.action is None else row.action.__name__
    to = "" if row.to is None else f" → {row.to}"
    codes = ", ".join(f"`{code.value}`" for code in row.reasons)
    step = "as under Leaving Grid Engine" if row.way_out else action
    return f"{row.when or rule.why} **{step}**{to}{f' ({codes})' if codes else ''}"


def _listed(phases: frozenset[Phase]) -> str:
    return ", ".join(phase for phase in Phase if phase in phases)


def _title(part: type[BaseModel]) -> str:
    return part.__name__.removesuffix("Part").removesuffix("Document")


def _type(part: type[BaseModel], field: str) -> str:
    """The field's JSON type in words, from its schema."""
    return _words(part.model_json_schema(mode="serialization", by_alias=True), field)


def _words(declared: dict[str, object], field: str) -> str:
    root = declared
    if "$ref" in root and isinstance(defs := root.get("$defs"), dict):
        root = defs[str(root["$ref"]).rpartition("/")[2]]
    properties = root["properties"]
    assert isinstance(properties, dict)
    return _one(properties[field])


def _one(kind: dict[str, object]) -> str:
    """A schema node in words."""
    if "$ref" in kind:
        return str(kind["$ref"]).rpartition("/")[2].removesuffix("Part")
    if "const" in kind:
        return f"`{kind['const']}`"
    if "enum" in kind and isinstance(kind["enum"], list) and len(kind["enum"]) <= _MOST_VALUES:
        return " or ".join(f"`{value}`" for value in kind["enum"])
    for several in ("anyOf", "oneOf"):
        if isinstance(options := kind.get(several), list):
            return " or ".join(_one(option) for option in options)
    if kind.get("type") == "array" and isinstance(items := kind.get("items"), dict):
        return f"list of {_one(items)}"
    return str(kind.get("type", "any"))


def _remedies(of_owner: str, of_administrator: str) -> str:
    """What an owner can do, then what an administrator can, as far as there is anything."""
    nothing = of_owner.startswith(_NOTHING)
    of_owner = _capital(of_owner.removeprefix(_NOTHING).lstrip(".: ")) if nothing else of_owner
    of_administrator = _capital(of_administrator.removeprefix("Nothing: "))
    if of_administrator:
        of_owner = _OR_ASK.sub(".", of_owner)
    if of_owner == _ASK and of_administrator:
        words = f"{_ASK[:-1]}: {of_administrator}"
    elif of_administrator and (of_owner or nothing):
        words = f"{of_owner} Administrators: {of_administrator}".lstrip()
    else:
        words = of_owner or of_administrator
    return words.replace(_AGAIN, "")


def _not_again(remedy: str, said: Mapping[str, str]) -> str:
    """A remedy without the many words with which an earlier one begins, whose code stands instead. `said`: remedy →
    code.
    """
    words = remedy.split()
    for earlier, code in said.items():
        same = sum(
            1
            for _ in takewhile(lambda pair: pair[0] == pair[1], zip(_bare(words), _bare(earlier.split()), strict=False))
        )
        if same > _LONG:
            return " ".join((f"as for `{code}`" + ("; " if words[same:] else "."), *words[same:])).replace("  ", " ")
    return remedy


def _bare(words: Iterable[str]) -> Iterator[str]:
    return (word.rstrip(".;") for word in words)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
