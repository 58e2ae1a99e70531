"""Debian packages of the folder, by nfpm: the program, and one for each extra. Other formats have the same contents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from installers.folder import EXTRAS
from installers.sources import PLACE, PROGRAM, gzipped, run, stamp, version_of

CONTROL = Path(__file__).parent / "debian"
MAINTAINER = "sge-autoscaler maintainers <maintainers@sge-autoscaler.invalid>"
SYSTEM = "/usr/lib/systemd/system"
LIBC = "libc6 (>= 2.17)"
WHAT = {
    "aws": "AWS: what its provider imports",
    "azure": "Azure: what its provider imports",
    "celery": "Celery: what the policy celery_queue imports",
    "dask": "Dask: what the command sweep imports",
}
ABOUT = """rents workers for the waiting jobs of a Grid Engine
 It rents machines from a cloud when jobs have waited too long, makes them
 execution hosts, and gives them back when they are idle. It has a Python and
 all libraries of its own, below /opt/sge-autoscaler."""


def build_packages(folder: Path, sources: Path, nfpm: Path, to: Path, epoch: int) -> list[Path]:
    """`folder`: what `lay_out` made."""
    version, work = version_of(sources), folder.parent / "debian-control"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    built = []
    stamp(folder, epoch)
    packages = list(_packages(folder, work, version, epoch))
    stamp(work, epoch)
    for name, contents, control in packages:
        described = work / f"{name}.json"
        described.write_text(json.dumps(_described(name, version, contents, control, epoch), indent=1), "utf-8")
        target = to / f"{name}_{version}_amd64.deb"
        target.unlink(missing_ok=True)
        environment = {"SOURCE_DATE_EPOCH": str(epoch), "TZ": "UTC"}
        run(
            str(nfpm),
            "package",
            "--config",
            str(described),
            "--packager",
            "deb",
            "--target",
            str(target),
            env=environment,
        )
        built.append(target)
    return built


Contents = list[dict[str, Any]]


def _packages(folder: Path, work: Path, version: str, epoch: int) -> Iterator[tuple[str, Contents, dict[str, Any]]]:
    share = folder / "base" / "share" / PROGRAM
    contents = [
        _tree(folder / "base"),
        _link(f"{PLACE}/bin/{PROGRAM}", f"/usr/bin/{PROGRAM}"),
        *(
            _file(path, f"{SYSTEM}/{path.name}")
            for path in sorted(share.glob("*.service")) + sorted(share.glob("*.socket"))
        ),
        _file(share / "completion.bash", f"/usr/share/bash-completion/completions/{PROGRAM}"),
        _file(share / "completion.zsh", f"/usr/share/zsh/vendor-completions/_{PROGRAM}"),
        _file(share / "completion.fish", f"/usr/share/fish/vendor_completions.d/{PROGRAM}.fish"),
        *(_file(path, f"/usr/share/man/man{path.suffixes[-2][1:]}/{path.name}") for path in sorted(share.glob("*.gz"))),
        _settings(share / f"{PROGRAM}.toml", f"/etc/{PROGRAM}.toml"),
        _settings(_copied(work, "default"), f"/etc/default/{PROGRAM}"),
        _settings(_copied(work, "logrotate"), f"/etc/logrotate.d/{PROGRAM}"),
        *_documents(PROGRAM, work, version, epoch),
    ]
    scripts = {
        f"{when}{what}": str(_script(work, f"{when}{what}", version))
        for when, what in (("pre", "install"), ("post", "install"), ("pre", "remove"), ("post", "remove"))
    }
    yield (
        PROGRAM,
        contents,
        {
            "description": ABOUT,
            "depends": [LIBC, "passwd"],
            "recommends": ["gridengine-client"],
            "scripts": scripts,
        },
    )
    for extra in EXTRAS:
        name = f"{PROGRAM}-{extra}"
        described = f"{WHAT[extra]}\n Add-on of the package sge-autoscaler, of the same version."
        contents = [_tree(folder / extra), *_documents(name, work, version, epoch)]
        control = {"description": described, "depends": [f"{PROGRAM} (= {version})", LIBC]}
        # Of several packages that it downgrades apt unpacks add-ons first.
        yield name, contents, control | {"scripts": {"preinstall": scripts["preinstall"]}}


def _described(name: str, version: str, contents: Contents, control: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    when = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "name": name,
        "arch": "amd64",
        "platform": "linux",
        "version": version,
        "version_schema": "none",
        "section": "admin",
        "priority": "optional",
        "maintainer": MAINTAINER,
        "license": "Apache-2.0",
        "mtime": when,
        "umask": 0o022,
        "deb": {"compression": "gzip"},
        "contents": contents,
        **control,
    }


def _documents(name: str, work: Path, version: str, epoch: int) -> Contents:
    place = work / name
    place.mkdir()
    when = format_datetime(datetime.fromtimestamp(epoch, UTC))
    changes = f"{name} ({version}) stable; urgency=medium\n\n  * Release {version}.\n\n -- {MAINTAINER}  {when}\n"
    (place / "changelog.gz").write_bytes(gzipped(changes))
    shutil.copyfile(CONTROL / "copyright", place / "copyright")
    own = "program" if name == PROGRAM else name.removeprefix(f"{PROGRAM}-")
    kinds = (CONTROL / "lintian-overrides", CONTROL / f"lintian-overrides-{own}")
    overrides = "".join(kind.read_text(encoding="utf-8") for kind in kinds if kind.exists())
    (place / "overrides").write_text(overrides.replace("@NAME@", name), encoding="utf-8")
    documents = [_file(place / each, f"/usr/share/doc/{name}/{each}") for each in ("changelog.gz", "copyright")]
    return [*documents, _file(place / "overrides", f"/usr/share/lintian/overrides/{name}")]


def _copied(work: Path, name: str) -> Path:
    """A file of ours whose time is the package's."""
    return Path(shutil.copyfile(CONTROL / name, work / name))


def _script(work: Path, name: str, version: str) -> Path:
    text = (CONTROL / name).read_text(encoding="utf-8")
    path = work / name
    path.write_text(text.replace("@VERSION@", version), encoding="utf-8")
    return path


def _tree(folder: Path) -> dict[str, Any]:
    return {"src": str(folder), "dst": PLACE, "type": "tree"}


def _file(source: Path, to: str) -> dict[str, Any]:
    return {"src": str(source), "dst": to, "file_info": {"mode": 0o644}}


def _settings(source: Path, to: str) -> dict[str, Any]:
    """A conf file: what an administrator changed in it stays."""
    return {"src": str(source), "dst": to, "type": "config|noreplace", "file_info": {"mode": 0o644}}


def _link(target: str, name: str) -> dict[str, Any]:
    return {"src": target, "dst": name, "type": "symlink"}
