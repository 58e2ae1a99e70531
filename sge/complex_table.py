"""`qconf -sc`: the table of complexes, read and added to by the names in its header.

Dialects differ in their columns: eight on Son of Grid Engine, Open Grid Scheduler and Open Cluster Scheduler, nine
(with aapre) from Univa 8.3 on, more on later Altair. A table without a header is read only if it has the eight.
`COMPLEXES` are those that Grid Engine is shipped with, for a recorded folder without `sc.txt`. Of these only `slots` is
consumable; h_vmem is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from autoscaler.core.model.cluster import Complex, Consumable
from autoscaler.errors import GridEngineNotObservable
from autoscaler.sge.markup import Aside

_COLUMNS = ("name", "shortcut", "type", "relop", "requestable", "consumable", "default", "urgency")
_NEEDED = _COLUMNS[:7]
_CONSUMABLE = {
    "NO": Consumable.NO,
    "YES": Consumable.PER_SLOT,
    "JOB": Consumable.PER_JOB,
    "HOST": Consumable.PER_HOST,  # Univa, Altair, Open Cluster Scheduler
}
_TEXTS = frozenset({"STRING", "CSTRING", "RESTRING"})
_SLOTS = "slots"


def read_complexes(text: str, aside: Aside | None = None) -> dict[str, Complex]:
    """Complexes by name. A row that cannot be read is set aside, and the others hold; `slots`, which every cell has, is
    then as Grid Engine ships it.

    Raises GridEngineNotObservable if the header has not all needed columns, if no row can be read, and without an
    `aside` for the first row that cannot.
    """
    complexes: dict[str, Complex] = {}
    faults: list[ValueError] = []
    for line, row in _rows(text):
        try:
            found = _complex(line, row)
        except ValueError as error:
            faults.append(error)
            if aside is not None:
                aside.put("a row of qconf -sc", error)
            continue
        complexes[found.name] = found
    if not complexes or (faults and aside is None):
        raise _not_understood(faults[0] if faults else "it has no line with a complex")
    if faults:
        complexes.setdefault(_SLOTS, COMPLEXES[_SLOTS])
    return complexes


def rows_of(text: str) -> tuple[str, ...]:
    """The lines of the table that define a complex, as `qconf -Mc` takes them."""
    return tuple(line for line, _ in _rows(text))


def has_complex(text: str, name: str) -> bool:
    """Whether a row defines a complex of this name."""
    return any(line.split()[0] == name for line in rows_of(text))


def text_row(text: str, name: str, *, requestable: bool) -> str:
    """The row of a further complex of type STRING that is not consumable, for `qconf -Mc` of this table.

    In unknown columns it copies a complex of that kind in the table. Raises GridEngineNotObservable if it has such
    columns, but no such complex.
    """
    ours = dict(
        zip(_COLUMNS, (name, name, "STRING", "==", "YES" if requestable else "NO", "NO", "NONE", "0"), strict=True)
    )
    rows = [row for _, row in _rows(text) if row]
    like = next((row for row in rows if row["type"].upper() in _TEXTS and row["consumable"].upper() == "NO"), None)
    columns = tuple(like or (rows[0] if rows else _COLUMNS))
    unknown = [column for column in columns if column not in ours]
    if unknown and like is None:
        raise _not_understood(f"it has columns {', '.join(unknown)}, and no complex of type STRING to take them from")
    return " ".join(ours.get(column) or (like or {})[column] for column in columns)


def _rows(text: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Every line that is no comment, with its values by column; none if there are more or fewer than columns."""
    header: tuple[str, ...] = ()
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if line.lstrip().startswith("#"):
            header = _header(line) or header
            continue
        columns = header or _COLUMNS
        yield line, dict(zip(columns, words, strict=True)) if len(words) == len(columns) else {}


def _header(line: str) -> tuple[str, ...]:
    """The names of columns, if this comment is the header. Raises GridEngineNotObservable if one is missing."""
    names = tuple(line.strip(" \t#").lower().split())
    if names[:1] != ("name",) or len(names) < 3:
        return ()
    missing = [name for name in _NEEDED if name not in names]
    if missing or len(set(names)) < len(names):
        raise _not_understood(
            f"its header {line.strip()!r} has no column {', '.join(missing) or 'of its own for each name'}"
        )
    return names


def _complex(line: str, row: Mapping[str, str]) -> Complex:
    if not row:
        raise ValueError(
            f"{len(line.split())} columns, which its header does not name (8 without one): {line.strip()!r}"
        )
    name, shortcut, kind, relop, requestable, consumable, default = (row[column] for column in _NEEDED)
    if consumable.upper() not in _CONSUMABLE:
        raise ValueError(f"complex {name} is consumable {consumable!r}, which is none of {', '.join(_CONSUMABLE)}")
    return Complex(name, shortcut, kind, relop, requestable, _CONSUMABLE[consumable.upper()], default)


def _not_understood(why: object) -> GridEngineNotObservable:
    return GridEngineNotObservable(
        f"`qconf -sc` cannot be understood: {why}; nothing was decided; run it by hand on this host"
    )


_STRINGS = "arch:a calendar:c m_topology:topo m_topology_inuse:utopo qname:q"
_MEMORY_LIMITS = "h_core s_core h_data s_data h_fsize s_fsize h_rss s_rss h_stack s_stack h_vmem s_vmem"
_TIME_LIMITS = "h_cpu s_cpu h_rt s_rt"
_MEMORY_OFFERED = "mem_free:mf mem_total:mt swap_free:sf swap_total:st virtual_free:vf virtual_total:vt"
_MEMORY_TAKEN = "mem_used:mu swap_rate:sr swap_rsvd:srsv swap_used:su virtual_used:vu"
_CORES = "m_core:core m_socket:socket m_thread:thread"
_LOADS = (
    "load_avg:la load_long:ll load_medium:lm load_short:ls "
    "np_load_avg:nla np_load_long:nll np_load_medium:nlm np_load_short:nls"
)


def _alike(names: str, kind: str, relop: str, requestable: str = "YES", default: str = "0") -> list[Complex]:
    """`name:shortcut` words; a word without a colon is its own shortcut."""
    pairs = ((word.split(":")[0], word.split(":")[-1]) for word in names.split())
    return [Complex(name, short, kind, relop, requestable, Consumable.NO, default) for name, short in pairs]


COMPLEXES: Mapping[str, Complex] = MappingProxyType(
    {
        row.name: row
        for row in (
            *_alike(_STRINGS, "STRING", "==", default="NONE"),
            *_alike("hostname:h", "HOST", "==", default="NONE"),
            *_alike("tmpdir:tmp", "STRING", "==", "NO", "NONE"),
            *_alike("display_win_gui:dwg", "BOOL", "=="),
            *_alike("rerun:re", "BOOL", "==", "NO"),
            *_alike("cpu", "DOUBLE", ">="),
            *_alike(_LOADS, "DOUBLE", ">=", "NO"),
            *_alike(_MEMORY_LIMITS, "MEMORY", "<="),
            *_alike(_MEMORY_OFFERED, "MEMORY", "<="),
            *_alike(_MEMORY_TAKEN, "MEMORY", ">="),
            *_alike(_TIME_LIMITS, "TIME", "<=", default="0:0:0"),
            *_alike("min_cpu_interval:mci", "TIME", "<=", "NO", "0:0:0"),
            *_alike(_CORES, "INT", "<="),
            # A request for num_proc needs a host with exactly as many, not with more.
            *_alike("num_proc:p", "INT", "=="),
            *_alike("seq_no:seq", "INT", "==", "NO"),
            Complex("slots", "s", "INT", "<=", "YES", Consumable.PER_SLOT, "1"),
        )
    }
)
