"""Whether access lists and projects shut out everybody, or the account that runs the autoscaler; for `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from autoscaler.core.model.cluster import Access, AccessList
from autoscaler.sge.access import access_lists
from autoscaler.sge.checks import Finding, Level
from autoscaler.sge.qconf import read_access, read_attributes, read_pe, read_queue

WHAT = "access"
_REMEDY = "`qconf -su LIST` shows a list, `qconf -au USER LIST` adds to it; `qconf -mq`, `-mp`, `-me` name others"


def access_finding(texts: Mapping[str, str], queues: Sequence[str], user: str) -> Finding:
    """The finding. `texts`: the configuration by file stem; `queues`: the autoscaled ones."""
    lists = access_lists(texts)
    restricted = list(_restricted(texts, queues))
    shut = [
        problems
        for what, access, is_queue in restricted
        for problems in shut_out(what, access, lists, is_queue=is_queue)
        if not what.startswith("host ") or what == "host global"
    ]
    if shut:
        return Finding(WHAT, Level.FAIL, "; ".join(dict.fromkeys(shut)), _REMEDY)
    problems = [f"{what} is restricted by {', '.join(access.shown)}" for what, access, _ in restricted]
    problems += _submits_nothing(texts, user)
    problems += _unread_hosts(restricted)
    if problems:
        return Finding(
            WHAT,
            Level.WARN,
            "; ".join(dict.fromkeys(problems)),
            "make sure that the lists name the users whose jobs need workers",
        )
    return Finding(WHAT, Level.OK, "no access list or project restricts who may use the queues that are autoscaled")


def shut_out(what: str, access: Access, lists: Mapping[str, AccessList], *, is_queue: bool) -> Iterator[str]:
    """Why nobody at all may use it."""
    known = [lists.get(name) for name in access.user_lists]
    if known and all(one is not None and not (one.grants and one.entries) for one in known):
        yield f"nobody may use {what}: user_lists={' '.join(access.user_lists)} names nobody{_no_acl(known)}"
    for name in access.xuser_lists:
        one = lists.get(name)
        if is_queue and one is not None and not one.grants:
            yield f"nobody may use {what}: xuser_lists={name} is no access list (its type is not ACL), and refuses all"
    if access.projects and set(access.projects) <= set(access.xprojects):
        yield f"nobody may use {what}: each of its projects is in its xprojects as well"


def _no_acl(known: Sequence[AccessList | None]) -> str:
    return " (a set without the type ACL grants nothing)" if any(one and not one.grants for one in known) else ""


def _restricted(texts: Mapping[str, str], queues: Sequence[str]) -> Iterator[tuple[str, Access, bool]]:
    """Everything that is not open to everybody, and whether it is a queue."""
    for stem, text in texts.items():
        kind, _, name = stem.partition("_")
        found: list[tuple[str, Access]] = []
        read = _READERS.get(kind)
        if read is not None and (kind != "sq" or name in queues):
            try:
                found = list(read(name, text))
            except (ValueError, KeyError):
                continue
        yield from ((what, access, kind == "sq") for what, access in found if access.shown)


def _of_queue(name: str, text: str) -> Iterator[tuple[str, Access]]:
    queue = read_queue(text)
    yield name, queue.access
    for place, values in queue.access_by_host.items():
        yield f"{name} on {place}", Access(**values)


def _of_pe(name: str, text: str) -> Iterator[tuple[str, Access]]:
    yield f"PE {name}", read_pe(text).access


def _of_host(name: str, text: str) -> Iterator[tuple[str, Access]]:
    yield f"host {name}", read_access(text)


_READERS: Mapping[str, Callable[[str, str], Iterator[tuple[str, Access]]]] = {
    "sq": _of_queue,
    "sp": _of_pe,
    "se": _of_host,
}


def _submits_nothing(texts: Mapping[str, str], user: str) -> Iterator[str]:
    """qmaster applies the global configuration only when a job is submitted."""
    text = texts.get("sconf", "")
    access = read_access(text)
    by = list(access.shown)
    if read_attributes(text).get("enforce_project", "").lower() == "true":
        by.append("enforce_project=true")
    if by:
        yield (
            f"the global configuration allows only some users to submit ({', '.join(by)}), perhaps not {user}, "
            "who runs the autoscaler; the autoscaler asks Grid Engine about waiting jobs all the same"
        )


def _unread_hosts(restricted: Sequence[tuple[str, Access, bool]]) -> Iterator[str]:
    """A pass reads lists of hosts only if something else names a list."""
    hosts = [what for what, _, _ in restricted if what.startswith("host ") and what != "host global"]
    if hosts and len(hosts) == len(restricted):
        yield "passes do not read lists that only hosts name: name the list in the queue as well"
