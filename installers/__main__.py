"""`make dist`: a wheel, the folder with its own Python (.tar.zst), and Debian packages, into dist/.

The same sources make the same bytes, in whatever folder. What is downloaded is pinned by hashes, or signed by Debian.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from installers.debian import build_packages
from installers.folder import EXTRAS, check, fetch_packages, lay_out
from installers.interpreter import build_interpreter, fetch_tools
from installers.site.manual_pages import build as build_manual
from installers.sources import PROGRAM, ROOT, Failed, epoch_of, export, packed, run, say, version_of
from installers.wheel import build_wheel


def build(to: Path, work: Path, *, only: str = "", version: str = "") -> list[Path]:
    """All packages, or those of one kind. `work` keeps what further builds can use; one at a time works there."""
    work.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(work / "lock", timeout=0):
            return _built(to, work, only, version)
    except Timeout as error:
        raise Failed(f"another `make dist` works in {work}: wait for its end, or give --work another folder") from error


def _built(to: Path, work: Path, only: str, version: str) -> list[Path]:
    epoch = epoch_of(ROOT)
    sources = export(ROOT, work / "sources")
    if version:
        setup = sources / "setup.cfg"
        setup.write_text(
            re.sub(r"(?m)^version = .*$", f"version = {version}", setup.read_text("utf-8"), count=1), "utf-8"
        )
    version = version_of(sources)
    to.mkdir(parents=True, exist_ok=True)
    say(f"wheel of {version}")
    wheel = build_wheel(sources, to, epoch)
    if only == "wheel":
        return [wheel]
    say("tools, as pinned")
    tools = fetch_tools(sources / "requirements" / "dist.txt", work / "tools")
    interpreter = build_interpreter(tools, work)
    say("packages, as pinned")
    fetch_packages(sources, work / "packages")
    say("manual pages")
    sphinx = fetch_tools(sources / "requirements" / "docs.txt", work / "sphinx")
    manual = build_manual(work / "manual", sources, sphinx, epoch)
    say("the folder")
    folder = work / "folder"
    lay_out(interpreter, wheel, work / "packages", sources, manual, folder)
    built = [wheel]
    for name in ("base", *EXTRAS):
        check(folder / name, work)
        full = f"{PROGRAM}-{version}-linux-x86_64" if name == "base" else f"{PROGRAM}-{name}-{version}-linux-x86_64"
        if only != "deb":
            built.append(_compressed(packed(folder / name, PROGRAM, epoch), to / f"{full}.tar.zst", work))
    say("Debian packages")
    (nfpm,) = (path for path in (tools / "bin").glob("nfpm*"))
    return built + build_packages(folder, sources, nfpm, to, epoch)


def _compressed(archive: bytes, to: Path, work: Path) -> Path:
    plain = work / "plain.tar"
    plain.write_bytes(archive)
    run("zstd", "--quiet", "--force", "-12", "--threads=1", "--rm", str(plain), "-o", str(to), timeout=1800.0)
    to.chmod(0o644)
    return to


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m installers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, default=ROOT / "dist", metavar="FOLDER")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "dist", metavar="FOLDER")
    parser.add_argument("--only", choices=("wheel", "deb"), default="", help="a wheel takes seconds")
    parser.add_argument(
        "--as-version", default="", metavar="VERSION", help="another one than setup.cfg has, to try upgrades"
    )
    options = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        built = build(options.to.absolute(), options.work.absolute(), only=options.only, version=options.as_version)
    except Failed as error:
        print(f"dist: {error}", file=sys.stderr)
        return 1
    for path in built:
        say(f"{path.stat().st_size / 1e6:7.1f} MB  {path.name}")
    say(f"ready in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
