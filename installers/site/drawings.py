"""The drawings of docs/drawings, as SVG, each made of what the code itself says.

`python -m installers.site.drawings` writes them; tests/test_site.py fails on one that is out of date.
"""

from __future__ import annotations

import ast
import configparser
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

from autoscaler.core.events.event import OF_WORKERS, EventKind
from autoscaler.core.workers.phases import Phase

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "drawings"
_WIDTH, _ROW, _BOX, _LEFT = 760, 44, 30, 20
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}" '
    'font-family="sans-serif" font-size="13" fill="#222">\n'
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>\n'
    '<rect width="{width}" height="{height}" fill="#fff"/>\n'
)
_HALO = 'stroke="#fff" stroke-width="4" paint-order="stroke"'
_LONGEST = 86
"""Letters that have room beside a box."""
_MOST = 6
"""More packages of one layer are not drawn."""
_EDGE = re.compile(r"^\s+(\w+) --> (\w+)(?:: (.*))?$", re.MULTILINE)


def drawings() -> dict[str, str]:
    """File name → SVG."""
    return {
        "pass.svg": _chain("A pass", _of_a_pass()),
        "job.svg": _chain("A job's way", _of_a_job()),
        "phases.svg": _arcs("Phases of a worker", [str(phase) for phase in Phase], _phase_edges()),
        "layers.svg": _stack("The layers", _layers()),
    }


def _of_a_pass() -> Iterator[tuple[str, str]]:
    """What `Loop.pass_once` and `_decide` call, in their order, with the first sentence of each."""
    core = ROOT / "autoscaler" / "core"
    yield "observe", "the loop reads Grid Engine, the cloud and the store, once, or nothing"
    yield "facts_of", _first_sentence(core / "facts" / "facts.py", "facts_of")
    (decide,) = (
        node
        for node in ast.parse((core / "plan.py").read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == "_decide"
    )
    imported = _imported(core / "plan.py")
    seen = set[str]()
    for name in _calls(decide):
        if name not in seen and (name in imported or name.startswith("_")) and not name[0].isupper():
            seen.add(name)
            yield name.lstrip("_"), _first_sentence(imported.get(name, core / "plan.py"), name)
    yield "act", "one executor a kind of action; each is in the journal before it begins"
    yield "report", "one sentence, and the reasons for all that was done and not done"


def _calls(function: ast.FunctionDef) -> list[str]:
    """Names of functions in the order in which they are called, without those that only make an argument for one."""
    found = [node for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    made = {id(inner) for outer in found for inner in (*outer.args, *(word.value for word in outer.keywords))}
    found = [node for node in found if id(node) not in made or ast.unparse(node.func).startswith("_")]
    placed = sorted(found, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
    return [node.func.id for node in placed if isinstance(node.func, ast.Name)]


def _imported(file: Path) -> dict[str, Path]:
    """Imported functions of this project → their files."""
    return {
        alias.name: ROOT / Path(*node.module.split(".")).with_suffix(".py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _first_sentence(file: Path, name: str) -> str:
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            sentence = re.split(r"[.;:]\s|\.$", " ".join((ast.get_docstring(node) or "").split()))[0]
            return sentence if len(sentence) <= _LONGEST else sentence.partition(", ")[0]
    return ""


def _of_a_job() -> Iterator[tuple[str, str]]:
    """The events of a job and, between them, those of its worker, with what the code says of each."""
    texts = {"SUBMITTED": "qsub", "STARTED": "Grid Engine runs it", "ENDED": "as Grid Engine's accounting says"}
    texts |= _enum_texts(ROOT / "autoscaler/core/events/event.py", "EventKind")
    for kind in EventKind:
        about = texts.get(kind.name, "")
        whose = "its worker: " if kind in OF_WORKERS else ""
        yield str(kind).replace("_", " "), whose + about.partition(";")[0].rstrip(".")


def _enum_texts(file: Path, name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    (body,) = (
        node.body
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    for node, after in pairwise(body):
        match node, after:
            case ast.Assign(targets=[ast.Name(id=member)]), ast.Expr(value=ast.Constant(value=str(text))):
                found[member] = text
            case _:
                pass
    return found


def _phase_edges() -> dict[tuple[str, str], str]:
    """From one phase to another: what the generated page has."""
    page = (ROOT / "docs" / "worker-phases.md").read_text("utf-8")
    return {(source, target): what or "" for source, target, what in _EDGE.findall(page.split("```")[1])}


def _layers() -> Iterator[tuple[list[str], bool]]:
    """The layers of the import contracts from above, each as its packages; of the last, the core, its own follow."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for contract, inner in (("layers", False), ("core_layers", True)):
        for line in setup[f"importlinter:contract:{contract}"]["layers"].strip().splitlines():
            names = [name.strip("() ").removeprefix("autoscaler.") for name in re.split(r"[|:]", line)]
            yield names if len(names) <= _MOST else [*names[:_MOST], "…"], inner


def _chain(title: str, steps: Iterable[tuple[str, str]]) -> str:
    rows = list(steps)
    parts = []
    for at, (name, about) in enumerate(rows):
        y = 20 + at * _ROW
        parts.append(_box(_LEFT, y, 150, name))
        parts.append(_text(_LEFT + 165, y + 20, about))
        if at:
            parts.append(_arrow(f"M{_LEFT + 75} {y - _ROW + _BOX}V{y - 2}"))
    return _svg(title, 20 + len(rows) * _ROW, parts)


def _arcs(title: str, nodes: Sequence[str], edges: Mapping[tuple[str, str], str]) -> str:
    """Nodes below each other; steps forward to the right of them, steps back to the left. No label covers another."""
    middle, step = 330, _ROW + 26
    places = {name: 20 + at * step for at, name in enumerate(nodes)}
    arrows, labels = [], list[tuple[int, int, int, str]]()
    for (source, target), what in sorted(edges.items(), key=lambda edge: abs(places[edge[0][0]] - places[edge[0][1]])):
        start, end = places[source] + 15, places[target] + 15
        apart, side = abs(end - start) // step, 1 if end > start else -1
        if (side, apart) == (1, 1):
            arrows.append(_arrow(f"M{middle} {start + 15}V{end - 17}"))
            x = middle + 6
        else:
            edge, bend, shift = middle + side * 60, middle + side * (60 + 52 * apart), 5 * apart
            curve = f"{bend} {start} {bend} {end} {edge + side * 2} {end - shift // 2}"
            arrows.append(_arrow(f"M{edge} {start + shift // 2}C{curve}"))
            x = edge + (bend - edge) * 3 // 4 + side * 4
        if what:
            left = x if side > 0 else x - _width(what)
            labels.append((left, _free(left, (start + end) // 2 + 4, what, labels), _width(what), what))
    boxes = [_box(middle - 60, y, 120, name) for name, y in places.items()]
    words = [_text(x, y, what).replace("<text", f"<text {_HALO}") for x, y, _, what in labels]
    return _svg(title, 20 + len(nodes) * step, [*arrows, *boxes, *words])


def _free(left: int, y: int, words: str, labels: Iterable[tuple[int, int, int, str]]) -> int:
    """The height nearest to `y` at which a label covers no other one."""
    taken = [at for x, at, width, _ in labels if x < left + _width(words) and left < x + width]
    near = (y + way * 16 * far for far in range(20) for way in (1, -1))
    return next(each for each in near if all(abs(each - at) >= 16 for at in taken))


def _width(words: str) -> int:
    return 7 * len(words)


def _stack(title: str, layers: Iterable[tuple[list[str], bool]]) -> str:
    parts, y = [], 20
    for names, inner in layers:
        left, width = (_LEFT + 40, _WIDTH - 2 * _LEFT - 40) if inner else (_LEFT, _WIDTH - 2 * _LEFT)
        each = (width - 8 * (len(names) - 1)) // len(names)
        parts += [_box(left + at * (each + 8), y, each, name) for at, name in enumerate(names)]
        y += _BOX + 6
    return _svg(title, y + 14, parts)


def _box(x: int, y: int, width: int, name: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{_BOX}" rx="6" fill="#eef3f8" stroke="#567"/>\n'
        f'<text x="{x + width // 2}" y="{y + 20}" text-anchor="middle" font-weight="bold">{escape(name)}</text>\n'
    )


def _text(x: int, y: int, words: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(words)}</text>\n' if words else ""


def _arrow(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#tip)"/>\n'


def _svg(title: str, height: int, parts: Iterable[str]) -> str:
    return _HEAD.format(width=_WIDTH, height=height, title=escape(title)) + "".join(parts) + "</svg>\n"


def stale() -> dict[Path, str]:
    """Drawings that are not as the code is now, with their text."""
    return {
        FOLDER / name: text
        for name, text in drawings().items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text("utf-8") != text
    }


if __name__ == "__main__":
    for path, text in stale().items():
        path.write_text(text, "utf-8")
        sys.stdout.write(f"wrote {path}\n")
