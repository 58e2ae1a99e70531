"""Grid Engine's complexes as shipped, for a recorded folder without `sc.txt`. Of these only `slots` is consumable;
h_vmem is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from autoscaler.core.model.cluster import Complex, Consumable

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


def _rows(names: str, kind: str, relop: str, requestable: str = "YES", default: str = "0") -> list[Complex]:
    """`name:shortcut` words; a word without a colon is its own shortcut."""
    pairs = ((word.split(":")[0], word.split(":")[-1]) for word in names.split())
    return [Complex(name, short, kind, relop, requestable, Consumable.NO, default) for name, short in pairs]


COMPLEXES: Mapping[str, Complex] = MappingProxyType(
    {
        row.name: row
        for row in (
            *_rows(_STRINGS, "STRING", "==", default="NONE"),
            *_rows("hostname:h", "HOST", "==", default="NONE"),
            *_rows("tmpdir:tmp", "STRING", "==", "NO", "NONE"),
            *_rows("display_win_gui:dwg", "BOOL", "=="),
            *_rows("rerun:re", "BOOL", "==", "NO"),
            *_rows("cpu", "DOUBLE", ">="),
            *_rows(_LOADS, "DOUBLE", ">=", "NO"),
            *_rows(_MEMORY_LIMITS, "MEMORY", "<="),
            *_rows(_MEMORY_OFFERED, "MEMORY", "<="),
            *_rows(_MEMORY_TAKEN, "MEMORY", ">="),
            *_rows(_TIME_LIMITS, "TIME", "<=", default="0:0:0"),
            *_rows("min_cpu_interval:mci", "TIME", "<=", "NO", "0:0:0"),
            *_rows(_CORES, "INT", "<="),
            *_rows("num_proc:p", "INT", "=="),
            *_rows("seq_no:seq", "INT", "==", "NO"),
            Complex("slots", "s", "INT", "<=", "YES", Consumable.PER_SLOT, "1"),
        )
    }
)
