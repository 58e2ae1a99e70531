"""Rename the codes and reword the sentences of reasons, everywhere at once: decision 0034.

Run it in a checkout: `python docs/decisions/0034-rename.py [ROOT]`, then `make format` and `python -m
autoscaler.report.pages`. What is renamed already stays, so that it may be run again after a merge. Codes are those of autoscaler/core/model/renamed_codes.py; phrases stand below.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

WIDTH = 120
PHRASES: tuple[tuple[str, str], ...] = (
    # -- pending jobs
    (
        "it waits for a worker that is there or asked for: waiting jobs launch none themselves",
        "it waits for a worker that exists or was requested: pending jobs alone launch none",
    ),
    (
        "it counts, but only a host that it names can run it",
        "it counts as demand, but only a host that it names can run it",
    ),
    ("it fits on what is free now", "it fits on hosts that are free now"),
    ("can start nowhere", "can start on no host"),
    ("; a worker is launched when it has waited", "; the autoscaler launches a worker once it has waited"),
    ("and their queue has waited {1} or more", "and the oldest job of their queue has waited {1} or longer"),
    ("re:its array lets only (\\S+) tasks? run at once", "its array may run at most \\1 tasks at once (-tc)"),
    ("no array may have more than {1} tasks running at once", "an array may run at most {1} tasks at once"),
    ("may have only {1} jobs running at once", "may run at most {1} jobs at once"),
    ("jobs that run or wait longer", "jobs that run or have waited longer"),
    ("is left, and jobs that wait longer take it", "is left, and jobs that have waited longer take it"),
    (
        "; workers are launched {1} before, as long as a boot takes",
        "; the autoscaler launches workers {1} before that, the time a boot takes",
    ),
    (", and more of those wait", ", and more such jobs wait"),
    ("no autoscaled queue would take it", "no autoscaled queue can run it"),
    ("it asks for a host that is not ours", "it requests a host that the autoscaler does not manage"),
    ("Grid Engine has not been asked about it yet", "its requests have not been read yet"),
    ("it asks for {1}, which is not known", "it requests {1}, which is no complex of this cell"),
    ("it asks for a host with", "it requests a host with"),
    ("re:\\bit asks (?=\\{|\\d|[\\w.]+=)", "it requests "),
    ("; asked besides: ", "; it also requests "),
    (
        "it has no project, and {1} takes only jobs of some",
        "it has no project, and only jobs of some projects may use {1}",
    ),
    ("not looked at", "not read yet"),
    ("It is looked at within a few passes;", "It is read within a few passes;"),
    ("re:^not heard$", "no load report"),
    ("re:(?<=\\d )not heard\\b", "no load report"),
    ("pushing back ", "rescheduling "),
    ("re:^pushing back$", "rescheduling"),
    ("telling the owner of", "notifying the owner of"),
    # -- jobs that nothing allowed can run
    ("all that is allowed together has", "all allowed hosts together have"),
    ("more than all that is allowed has together", "more than all allowed hosts have together"),
    ("; no allowed worker is one", "; no allowed worker is such a host"),
    ("re:\\bask `(?=-|\\{)", "request `"),
    ("that it can never run is not certain, so it is left alone", "not proven unsatisfiable: left alone"),
    ("that it can never run is not certain", "not proven unsatisfiable"),
    (
        "a host that is there could run it once nothing else runs there",
        "an existing host could run it once it is empty",
    ),
    (
        "workers of several types together might run it, and are not launched for it",
        "workers of several types together might run it, but the autoscaler does not launch such a mix for it",
    ),
    (
        "what a worker will have of {1} is not known before",
        "the value of {1} on a new worker is not known before it joins",
    ),
    (
        "what {1} would report as {2} is not known: Grid Engine hears nothing of it",
        "the value of {2} on {1} is not known: qmaster has no load report from it",
    ),
    ("what {1} would report as {2} is not known", "the value of {2} on {1} is not known"),
    (
        "Grid Engine cannot be asked: more than {1} hosts would have to be made up for it",
        "Grid Engine cannot be asked: that would take more than {1} probe hosts",
    ),
    (
        "it was found so only a moment ago, and is looked at again at",
        "it was found unsatisfiable only a moment ago, and is checked again at",
    ),
    ("Grid Engine is asked whether it could ever run", "the autoscaler asks Grid Engine whether it could ever run"),
    ("Grid Engine is asked about older jobs first", "the autoscaler asks Grid Engine about older jobs first"),
    (" and is asked again at {1}", "; the autoscaler asks again at {1}"),
    (
        "no more than {1} such jobs are touched in a pass",
        "the autoscaler deletes or holds at most {1} such jobs in a pass",
    ),
    ("re:(?<![\\w.,:=-] )\\bso it is deleted", "so the autoscaler deletes it"),
    ("it is held until it can run", "the autoscaler holds it until it can run"),
    ("a person released it after we held it", "a person released it after the autoscaler had held it"),
    ("such jobs are not held any more", "the autoscaler no longer holds such jobs"),
    ("such jobs are only reported", "the autoscaler only reports such jobs"),
    ("held as impossible", "held as unsatisfiable"),
    ("possible again", "satisfiable again"),
    # -- workers and hosts
    ("it is a persistent worker", "it is a persistent host"),
    ("re:\\bit is the master\\b", "it is the qmaster host"),
    ('re:, ([^,;\\[\\]()"]+?) is the limit\\b', " (limit \\1)"),
    ("no more than {1} leave at a time", "at most {1} leave at a time"),
    ("the autoscaler was told to stop", "the autoscaler stops"),
    ("it lets no further job in", "it is disabled: no new job starts there"),
    ("it is looked at once more before the next step", "the next step needs one more observation"),
    ("two looks showed it disabled and empty", "two observations showed it disabled and empty"),
    ("second look due", "second observation due"),
    ("Grid Engine does not hear it yet", "qmaster has no load report from it yet"),
    ("Grid Engine hears it, {1} after it was made", "qmaster has load reports from it, {1} after it was created"),
    ("Grid Engine hears it again", "qmaster has load reports from it again"),
    ("Grid Engine did not hear it", "qmaster had no load report from it"),
    (
        "Grid Engine does not hear it; its jobs may well run on",
        "qmaster has no load report from it; its jobs may still run",
    ),
    ("Grid Engine has not heard it for", "qmaster has had no load report from it for"),
    ("; its jobs may well run on", "; its jobs may still run"),
    (
        "Grid Engine hears no host at all, which may be the master's own doing",
        "qmaster has no load report from any host, so the cause may be at qmaster",
    ),
    ('it joined by its own image, which does not give it {1}"', 'it joined by its own image, without {1}"'),
    ("a queue instance on it is in error: no job enters", "a queue instance on it is in error: no job starts there"),
    ("its health check has found it sick since", "its health check has failed since"),
    (
        "where {1} are found broken, it is hardly the hosts' own doing",
        "{1} look broken, and a shared cause is more likely than bad hosts",
    ),
    ("its node array {1} is not one of ours", "its node array {1} is in no setting"),
    (
        "an older machine's entry in Grid Engine still has its name",
        "the execution host of an older machine still has its name",
    ),
    (
        "neither an order nor an earlier look knows it; a running autoscaler takes it over",
        "it is in no order and in no earlier observation; a running autoscaler adopts it",
    ),
    (" ends it, which nobody manages", " terminates it, since nothing manages it"),
    # -- groups of workers
    ("is whole without it", "is complete without it"),
    ("is not complete, and not wanted any more", "is not complete, and no longer needed"),
    ("takes no job before all are ready:", "runs no job before all its workers are ready:"),
    (
        "neither asked to stop of late nor was idle for long enough",
        "has neither asked to stop recently nor been idle for long enough",
    ),
    # -- silent, interrupted or lost workers
    (
        ": its machine is ended, and its jobs are touched when its provider says that it is gone",
        ": the autoscaler terminates its machine, and handles its jobs once its provider reports that it is gone",
    ),
    ("its provider says that it is gone", "its provider reports that it is gone"),
    ("it was to be ended, but runs on and is heard", "it was to be terminated, but it runs and sends load reports"),
    (
        ", nor has Grid Engine heard it: its end is asked for, so that it is certain",
        ", and qmaster has no load report from it: the autoscaler terminates it to be certain",
    ),
    ("its cloud takes it at", "its cloud interrupts it at"),
    (": it is ended in time for that", ": the autoscaler terminates it before then"),
    ("its cloud takes it back", "its cloud has reclaimed it"),
    ("its cloud does not take it after all", "its cloud has withdrawn the interruption notice"),
    ("its cloud advises to move away from it", "its cloud recommends replacing it"),
    ('re:\\bits cloud takes it(?=[")])', "interrupted"),
    (
        "are left alone while Grid Engine hears this name: a machine that was ordered and is not listed yet may bear it",
        "are left alone while qmaster has load reports from this name: an ordered machine that is not listed yet may "
        "have it",
    ),
    ("Grid Engine is asked whether jobs", "the autoscaler asks Grid Engine whether jobs"),
    ("Grid Engine is asked whether job ", "the autoscaler asks Grid Engine whether job "),
    ("ran there, and may run on where hosts live", "ran there, and may still run on other hosts"),
    # -- launches, limits and offers
    ("re:\\bno more than (\\{batch\\}|\\d+) at a time", "at most \\1 at a time"),
    ("no more than {1} launches within {2}; the rest waits", "at most {1} launches within {2}; the rest waits"),
    ("serve the demand best", "fit the demand best"),
    (" rests until ", " is in backoff until "),
    ("cannot be had: {message}", "is not available: {message}"),
    ("cannot be had: none left", "is not available: none left"),
    ("is not what rules allow for what waits", "is not allowed by the rules of the pending jobs"),
    ("would run nothing of what waits", "could run no pending job"),
    (
        "is taken only when what waits could have run for",
        "is used only once the pending jobs have been able to run for",
    ),
    ("it makes room for a stronger worker", "a stronger worker replaces it"),
    ("it need not make room for a stronger worker any more", "its replacement by a stronger worker is cancelled"),
    ("need not make room any more", "replacement cancelled"),
    (
        "room for {1} could be made by {2}, and is looked at once more first",
        "{1} could replace {2}; one more observation comes first",
    ),
    ("room for {1} is made by ", "{1} replaces "),
    (
        "no worker of {1} could make room for a stronger one without more loss than gain",
        "to replace a worker of {1} by a stronger one would cost more than it gains",
    ),
    ("failed lately; the last,", "failed recently; the last,"),
    ("the provider takes no launch now", "the provider accepts no launch now"),
    ("tried again from {1} on, if it is still wanted then", "the next attempt is after {1}, if it is still needed"),
    ("; tried again from", "; the next attempt is after"),
    ("re:\\basked again from (\\{until_at\\}|[\\d: UTC-]+) on\\b", "the autoscaler asks again after \\1"),
    ("; asked again from", "; the autoscaler asks again after"),
    # -- requests and rules
    (" asked for workers of ", " requested workers of "),
    ("re:\\basked for\\[ by ", "requested[ by "),
    ("(asked for by ", "(requested by "),
    ("(asked for)", "(requested)"),
    ("re:\\basks for workers of (?=.*which is no node array)", "requests workers of "),
    (
        "nothing that is asked for {1} is offered: ",
        "the provider offers nothing of what is requested for {1}: ",
    ),
    ("; asked by ", "; requested by "),
    (
        "; requests get no worker of it, and jobs what the settings allow",
        "; requests get no worker of it, jobs get what the settings allow",
    ),
    ("re:, and ([^;,]+?) is asked\\b", ", and \\1 is requested"),
    ("it is to be had alone, but {1} is on it", "it is requested exclusively, but {1} runs on it"),
    (" has it to itself", " uses it exclusively"),
    ("no more of it can be had", "no more of it is available"),
    ("rules allow no worker that could be had", "the rules allow no worker that is available"),
    (
        "only rules are against it, and Grid Engine would run it: it is left alone",
        "only rules forbid it, and Grid Engine would run it: left alone",
    ),
    (" asked to keep the workers of {1} alive", " requested that workers of {1} are kept alive"),
    ("; asked for: ", "; requested: "),
    # -- the pass as a whole
    (" set aside: ", " ignored: "),
    (
        "; nothing is launched or removed until `sge-autoscaler resume`",
        "; the circuit breaker stops launches and removals until `sge-autoscaler resume`",
    ),
    # -- remedies
    ("and rests after enough of them", "and is in backoff after enough of them"),
    ("Mend what ", "Fix what "),
    (
        "The provider refused for good: mend what it says, then",
        "The provider refused for good: fix what it names, then",
    ),
    ("re:^; mend it, then `", "; fix it, then `"),
    ("one of us counts wrongly", "either side counts wrongly"),
    ("Look at the master's network", "Look at qmaster's network"),
    ("lets jobs in again", "enables it again"),
    ("but its `sge_execd` was never heard: check", "but qmaster never had a load report from it: check"),
    ("Whether workers will have it is for you to say", "You know whether workers will have it"),
    ("silence is not death, so its jobs are left alone", "its jobs are left alone, since they may still run"),
    (
        "Those that may start again are held, pushed back, and let go when",
        "Those that may start again are held, rescheduled, and released when",
    ),
)


def pattern(old: str) -> re.Pattern[str]:
    """A phrase as a regular expression: `{1}` is any fact, a space also a line break."""
    if old.startswith("re:"):
        return re.compile(old[3:])
    words = re.escape(old).replace("\\ ", " ").replace('"', "$" if old.endswith('"') else '"')
    return re.compile(re.sub(r"\\\{(\d)\\\}", lambda n: f'(?P<f{n[1]}>[^\\n"]+?)', words))


RULES = tuple(
    (pattern(old), new if old.startswith("re:") else re.sub(r"\{(\d)\}", r"\\g<f\1>", new.removesuffix('"')))
    for old, new in PHRASES
)


def reworded(text: str) -> str:
    for old, new in RULES:
        text = old.sub(new, text)
    return text


def renamed_codes(root: Path) -> dict[str, str]:
    source = (root / "autoscaler/core/model/renamed_codes.py").read_text("utf-8")
    return dict(re.findall(r'^ +"(\w+)": "(\w+)",$', source, re.MULTILINE))


def literal(text: str, indent: int, before: str, after: str) -> str:
    """A string literal that follows `before` and is followed by `after` in its line, wrapped at spaces."""
    whole = json.dumps(text, ensure_ascii=False)
    if " " in text[:-1] and len(before) + len(text.split(" ")[0]) + 3 > WIDTH:
        return whole  # not even its first word fits: the formatter breaks the line before it
    if len(before) + len(whole) + len(after) <= WIDTH or "\n" in text:
        return whole
    rows, row = [], ""
    for word in re.findall(r"[^ ]* |[^ ]+$", text):
        first = len(before) if not rows else indent
        if first + len(json.dumps(row + word, ensure_ascii=False)) + len(after) > WIDTH:
            rows.append(row)
            row = ""
        row += word
    return ("\n" + " " * indent).join(json.dumps(part, ensure_ascii=False) for part in (*rows, row))


def strings(tree: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Its strings, docstrings and parts of f-strings excepted."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in ast.walk(node) if part is not node}
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            yield node


def python(source: str, codes: dict[str, str]) -> str:
    """A module with its strings reworded; those that have become too long are wrapped anew."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    data = source.encode()
    found = sorted(strings(ast.parse(source)), key=lambda node: (node.lineno, node.col_offset), reverse=True)
    for node in found:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        segment = data[begin:end].decode()
        line_start = data.rfind(b"\n", 0, begin) + 1
        line_end = data.find(b"\n", end)
        if isinstance(node, ast.Constant) and segment.startswith('"') and not segment.startswith('"""'):
            new = codes.get(node.value) or reworded(node.value)
            if new == node.value:
                continue
            before, after = data[line_start:begin].decode(), data[end:line_end].decode()
            spaces = len(before) - len(before.lstrip())
            if "\n" in segment:  # wrapped already: as its second line
                second = segment.split("\n")[1]
                spaces = len(second) - len(second.lstrip())
            put = literal(new, spaces, before, after)
            if "\n" in put and "\n" not in segment and "reasons.row" not in source:
                put = f"({put})"  # it may be an operand, as in `assert "…" in told`
        else:
            put = reworded(segment)
        data = data[:begin] + put.encode() + data[end:]
    return data.decode()


def main(root: Path) -> None:
    codes = renamed_codes(root)
    names = "|".join(sorted(codes, key=len, reverse=True))
    attribute = re.compile(rf"\bCode\.({names})\b")
    member = re.compile(rf'^    ({names}) = "\1"$', re.MULTILINE)
    quoted = re.compile(rf'(["`])({names})\1')
    kept = {root / "autoscaler/core/model/renamed_codes.py", root / "tests/core/test_renamed_codes.py"}
    pages = {root / "docs/reasons.md", root / "docs/json.md", root / "docs/configure.md"}
    for path in sorted(
        path for room in ("autoscaler", "providers", "sge", "bench", "tests") for path in (root / room).rglob("*.py")
    ):
        if path in kept:
            continue
        source = path.read_text("utf-8")
        text = attribute.sub(lambda found: f"Code.{codes[found[1]]}", source)
        if path.name == "reasons.py":
            text = member.sub(lambda found: f'    {codes[found[1]]} = "{codes[found[1]]}"', text)
        inner = path.relative_to(root).as_posix()
        if inner.startswith("tests/") or (inner.startswith("autoscaler/report/")):
            text = python(text, codes)
        if text != source:
            path.write_text(text, "utf-8")
    texts = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "tests").rglob("expect.toml")]
    for path in texts:
        if path in pages or "decisions" in path.parts:
            continue
        source = path.read_text("utf-8")
        text = quoted.sub(lambda found: f"{found[1]}{codes[found[2]]}{found[1]}", source)
        if path.suffix == ".toml":  # `why` is the rule that a case shows, no expectation
            text = re.sub(r"^(?:says|sentence) = .*$", lambda found: reworded(found[0]), text, flags=re.MULTILINE)
        else:
            text = reworded(text)
        if text != source:
            path.write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]))
