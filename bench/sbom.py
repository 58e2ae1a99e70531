"""`make sbom`: the parts of the installed program, as a CycloneDX document (build/sbom.cdx.json).

cyclonedx-py reads the pinned requirements; this adds the program itself, the licences, and which package needs which.
The same sources make the same document. It makes no network calls.
"""

from __future__ import annotations

import argparse
import importlib.metadata as installed
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cyclonedx.schema import SchemaVersion
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements" / "run.txt"
OUTPUT = ROOT / "build" / "sbom.cdx.json"
PROGRAM = "sge-autoscaler"
_KEPT = ("type", "name", "version", "purl")
_LONGEST = 100
"""Characters of a licence's name: some packages have its whole text there."""


def sbom(requirements: Path = REQUIREMENTS) -> dict[str, Any]:
    """The document; `problems` checks it."""
    done = subprocess.run(
        (sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible", "--of", "JSON",
         "--sv", SchemaVersion.V1_6.to_version(), "--no-validate", str(requirements)),
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    document: dict[str, Any] = json.loads(done.stdout)
    document["components"] = [_component(each) for each in document["components"]]
    names: dict[str, str] = {canonicalize_name(each["name"]): each["bom-ref"] for each in document["components"]}
    program = installed.metadata(PROGRAM)
    document["metadata"]["component"] = {
        "type": "application",
        "bom-ref": PROGRAM,
        "name": PROGRAM,
        "version": program["Version"],
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    extras = _extras((PROGRAM, *names))
    document["dependencies"] = [
        {"ref": ref, "dependsOn": sorted({names[each.name] for each in _needs(name, extras) if each.name in names})}
        for name, ref in ((PROGRAM, PROGRAM), *sorted(names.items()))
    ]
    return document


def _component(given: dict[str, Any]) -> dict[str, Any]:
    """A package by its purl, its hashes beside it: which index it came from is not known here."""
    hashes = [each for reference in given["externalReferences"] for each in reference.get("hashes", ())]
    files = {
        "type": "distribution",
        "url": f"https://pypi.org/project/{given['name']}/{given['version']}/",
        "hashes": hashes,
    }
    return {
        "bom-ref": given["purl"],
        **{name: given[name] for name in _KEPT},
        "licenses": list(_licenses(given["name"])),
        "externalReferences": [files],
    }


def _licenses(name: str) -> Iterator[dict[str, Any]]:
    """As its author names it; none if the package is not installed here."""
    try:
        about = installed.metadata(name)
    except installed.PackageNotFoundError:
        return
    text = next((about[field] for field in ("License-Expression", "License") if field in about), "")
    classified = [
        each.rpartition(" :: ")[2] for each in about.get_all("Classifier", []) if each.startswith("License ::")
    ]
    if not text or len(text) > _LONGEST:
        text = " / ".join(classified)
    if text:
        yield {"license": {"name": text}}


class _Need(NamedTuple):
    name: str
    extras: frozenset[str]


def _extras(names: Iterable[str]) -> dict[str, frozenset[str]]:
    """By package, the extras that another one needs of it."""
    found: dict[str, frozenset[str]] = {}
    for need in (need for name in names for need in _needs(name, {})):
        found[need.name] = found.get(need.name, frozenset()) | need.extras
    return found


def _needs(name: str, extras: Mapping[str, frozenset[str]]) -> Iterator[_Need]:
    """The packages that a package needs, including those of its needed extras."""
    try:
        given = installed.requires(name) or ()
    except installed.PackageNotFoundError:
        return
    wanted = ("", *extras.get(canonicalize_name(name), ()))
    for each in map(Requirement, given):
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in wanted):
            yield _Need(canonicalize_name(each.name), frozenset(each.extras))


def problems(document: dict[str, Any]) -> list[str]:
    """Errors by the schema of CycloneDX."""
    from cyclonedx.validation.json import JsonStrictValidator  # its import computes for over a second

    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document), all_errors=True)
    return [str(each) for each in found or ()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sbom", description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    output: Path = parser.parse_args().output
    document = sbom()
    if wrong := problems(document):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{output}: {len(document['components'])} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
