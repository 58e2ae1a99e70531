"""The pages made from declarations: docs/reasons.md, docs/json.md and conf/plan.schema.json.

Run as `python -m autoscaler.report.pages [--check] [ROOT]`. `--check` writes nothing and fails (1) on a stale page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel

from autoscaler.core.reasons import Code
from autoscaler.report import schema
from autoscaler.report.remedies import GROUPS, REMEDIES
from autoscaler.report.wording import TEMPLATES

_REASONS_HEAD = """# Reasons

<!-- Made by `python -m autoscaler.report.pages`; change autoscaler/report/wording.py and remedies.py instead. -->

Every action and every inaction has a reason: a code that stays what it is, and a sentence made of its facts.
`sge-autoscaler explain JOB` or `explain HOST` prints it with what led to it. Words in braces are facts.
"""

_JSON_HEAD = """# JSON

<!-- Made by `python -m autoscaler.report.pages`; change autoscaler/report/schema.py instead. -->

`sge-autoscaler plan --json` and `once --json` print one document, `schema` 1, described below and as JSON Schema in
[conf/plan.schema.json](../conf/plan.schema.json). Fields may be added; none is renamed or taken away. Durations end in
`_s` and are seconds, times are ISO 8601 with offset, prices are an hour's.

The other commands reuse its parts:

| command | prints |
|---|---|
| `jobs --json` | `schema`, `now`, `jobs`: a list of Shape, one a job |
| `workers --json` | `schema`, `now`, `workers`: a list of Worker, each with `instance_type`, `node_array`, \
`group_id`, `state`, `price_per_hour`, `slots`, `used`, `created_at` besides |
| `orphans --json` | `schema`, `now`, `orphans`: a list of objects with `id`, `name`, `host` (its execution host), \
`busy`, `instance_type`, `node_array`, `state`, `price_per_hour`, `created_at`, `age_s`, `message` (its provider's \
last words), `reason` |
| `status --json` | `schema`, `now`, `sentence`, `pass`, `pass_at`, `waiting`, `counted`, `fitting`, \
`workers` (how many), `persistent` (how many), `price_per_hour`, `unknown_prices`, \
`request_sets`, `asked` (the same in a line), `paused`, `brake`, `stop`, `provider`, `lock` |
| `requests --json` | `schema`, `now`, `request_sets`: a list of objects with `name`, `by`, `at`, `expires_at`, \
`left_s` (both null for ever), `arrays` (names of all that it names) and `targets`, a list of objects with \
`node_array` and `count`, `cores` or `groups` with `group_cores` or `group_count`; `node_arrays`: a \
list of objects with the sums of these, `groups_of_workers` (how many of `groups` are of `group_count`), `nodes` \
(created one by one), \
`workers` (machines there, all together), \
`name`, `dynamic`, `extends`, `machine_types`, `wanted` (false: it goes with its last worker), `keep_alive` \
(sets for which its workers stay, however idle); `nodes`: a list of \
objects with `id`, `name`, `node_array`, `created_at`, `request_id`, `worker_id` |
| `autoscale --json` | `request_set`, `expires_at`, `arrays` (names), `note` (empty unless nobody acts on it now) |
| `history --json` | `schema`, `now`, `since`, `until`, `step_s`, `periods`: a list of objects with `at`, \
`observed_s`, means of `waiting`, `counted`, `fitting`, `running`, `slots`, `slots_used`, `persistent`, \
`price_per_hour`; `most_waiting`, `longest_wait_s`; `began` (jobs and tasks), `mean_wait_s`, \
`longest_waited_s`; `cost`; `arrays`: by name means of `coming`, `busy`, `idle`, `leaving`, `aside`, \
`cores`, `price_per_hour`, `unknown_prices`, `target_workers`, `target_cores`, and `most` (machines at a time) |
| `explain JOB --json` | `schema`, `job`, `state` (waiting, running, ended), `now`, `waiting`: a list of Shape, \
`running`, `launches`: a list of Launch that may serve it, \
`rules`: what [rules](rules.md) ask for it, and who meets them |
| `explain HOST --json` | `schema`, `host`, `now`, the fields of Worker, `actions`, `instances`, \
`machine`, `remembered`, `rules` |

`reason` is the same everywhere; [reasons.md](reasons.md) lists its codes.
"""

_PARTS: tuple[type[BaseModel], ...] = (
    schema.PlanDocument,
    schema.ReasonPart,
    schema.LaunchPart,
    schema.CandidatePart,
    schema.EnrolPart,
    schema.HostPart,
    schema.TerminatePart,
    schema.ShapePart,
    schema.WorkerPart,
    schema.BucketPart,
    schema.TimingsPart,
)


def generated(root: Path) -> dict[Path, str]:
    """Every page by its place in a checkout."""
    return {
        root / "docs" / "reasons.md": "\n".join(_reasons()) + "\n",
        root / "docs" / "json.md": "\n".join(_json()) + "\n",
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
    headings = {first: heading for heading, first in GROUPS}
    for code in Code:
        if code in headings:
            yield from ("", f"## {headings[code]}", "", "| code | sentence | what you can do |", "|---|---|---|")
        yield f"| `{code.value}` | {_cell(TEMPLATES[code])} | {_cell(REMEDIES[code])} |"


def _json() -> Iterator[str]:
    yield _JSON_HEAD.rstrip()
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
    if "enum" in kind and isinstance(kind["enum"], list):
        return " or ".join(f"`{value}`" for value in kind["enum"])
    for several in ("anyOf", "oneOf"):
        if isinstance(options := kind.get(several), list):
            return " or ".join(_one(option) for option in options)
    if kind.get("type") == "array" and isinstance(items := kind.get("items"), dict):
        return f"list of {_one(items)}"
    return str(kind.get("type", "any"))


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
