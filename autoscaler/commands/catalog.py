"""`sge-autoscaler catalog`: show the instance types that are known without asking a cloud, refresh them,
and make a file of VM sizes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import click

from autoscaler.commands._output import echo, json_option, print_json, print_result
from autoscaler.commands._own_catalog import catalog_setting
from autoscaler.commands.context import Invocation
from autoscaler.constraints.json_text import read_json
from autoscaler.constraints.vm_sizes import vm_sizes_text
from autoscaler.errors import SettingsError
from autoscaler.new_folder import write_file
from autoscaler.providers.catalog import Offer, catalog_text, load_catalog
from autoscaler.providers.interface import HasCatalog
from autoscaler.providers.registry import load
from autoscaler.report.prospects import offer_rows
from autoscaler.report.tables import print_catalog


@click.group("catalog")
def command() -> None:
    """Show instance types with sizes and prices, or refresh them from the cloud."""


@command.command()
@click.option("--family", help="Only types of this family, such as c5.")
@json_option
@click.pass_obj
def show(invocation: Invocation, family: str | None, as_json: bool) -> None:
    """Print the included types, overridden by those of the catalogue file of the settings."""
    known = load_catalog(_own_file(invocation)).offers.values()
    rows = offer_rows(offer for offer in known if family in (None, offer.type.family))
    if as_json:
        print_json({"schema": 1, "types": rows})
    else:
        print_catalog(rows)


@command.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write. Default: the file that the settings name.",
)
@json_option
@click.pass_obj
def refresh(invocation: Invocation, output: Path | None, as_json: bool) -> None:
    """Ask the provider's cloud for types and prices, and write them into a catalogue file. Use it for masters that may
    not ask for prices, and for regions whose prices are not included. The file takes effect when the provider's CATALOG
    setting names it.
    """
    file, setting = output or _own_file(invocation), _setting(invocation)
    if file is None or setting is None:
        raise SettingsError("no file to write: name one by --output, or in the provider's CATALOG setting")
    before = load_catalog(file if file.exists() else None).offers
    offers = _offers_of_cloud(invocation, setting)
    _write(file, catalog_text(offers))
    new = sum(offer.type.name not in before for offer in offers)
    changed = sum(offer.type.name in before and _differs(offer, before[offer.type.name]) for offer in offers)
    message = f"{file}: {len(offers)} types of {offers[0].region}; {new} are new, {changed} have other prices"
    if _own_file(invocation) != file:
        message += f"; set {setting}={file} to use it"
    print_result(message, as_json=as_json, file=str(file), types=len(offers), new=new, changed=changed)


@command.command("sizes")
@click.argument("skus", type=click.File(encoding="utf-8"))
@click.option("--size", "only", multiple=True, help="Only this size, such as Standard_F2; may be repeated.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write. Default: print it.")
@json_option
def sizes(skus: TextIO, only: tuple[str, ...], output: Path | None, as_json: bool) -> None:
    """Make a file of VM sizes from the output of `az vm list-skus --resource-type virtualMachines --output json`.

    SKUS is that output, or - for standard input. The file takes effect when CP_CAP_AUTOSCALE_VM_SIZES names it.
    """
    comment = f"Made by `sge-autoscaler catalog sizes` on {datetime.now(UTC).date()} of Azure's list of SKUs."
    text = vm_sizes_text(read_json(skus.read()), comment=comment, only=only)
    if output is None and not as_json:
        echo(text.rstrip("\n"))
    elif output is None:
        print_result("no file was written: --output names one", as_json=True, done=False, text=text)
    else:
        _write(output, text)
        message = f"wrote {output}; set CP_CAP_AUTOSCALE_VM_SIZES={output} to use it"
        print_result(message, as_json=as_json, file=str(output))


def _offers_of_cloud(invocation: Invocation, setting: str) -> Sequence[Offer]:
    """The provider without the catalogue file of the settings, which would override the cloud's own prices."""
    name = invocation.settings.process.provider or ""
    values = invocation.settings.for_provider(invocation.environ)
    provider = load(name, {key: value for key, value in values.items() if key != setting}, "catalog")
    if not isinstance(provider, HasCatalog):
        raise SettingsError(f"provider {name} has no prices besides its catalogue: write the file by hand")
    offers = provider.offers(datetime.now(UTC).date().isoformat())
    if not offers:
        raise SettingsError(f"provider {name} offers no instance type with these settings: no file was written")
    return offers


def _setting(invocation: Invocation) -> str | None:
    return catalog_setting(invocation.settings.process.provider)


def _own_file(invocation: Invocation) -> Path | None:
    setting = _setting(invocation)
    given = invocation.settings.for_provider(invocation.environ).get(setting or "", "")
    return Path(given) if given else None


def _write(file: Path, text: str) -> None:
    """Write the whole file or nothing."""
    try:
        write_file(file, text.encode(), mode=0o644, make=True)
    except OSError as error:
        raise SettingsError(f"cannot write {file}: {error}") from error


def _differs(offer: Offer, before: Offer) -> bool:
    """Whether a price now differs from the one before."""
    pairs = ((offer.on_demand, before.on_demand), (offer.spot, before.spot))
    return any(now is not None and now != then for now, then in pairs)
