"""The rules and VM sizes of a process. Both are read at its start, where they must be valid. Rules are read again at
each observation, with the files of shared resources; an error then is logged once, and the former rules stay in force.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoscaler.constraints.applying import stand_alone
from autoscaler.constraints.rules import load_rules
from autoscaler.constraints.vm_sizes import VmSizes, load_vm_sizes
from autoscaler.core.constraints.node import SizeFacts
from autoscaler.core.constraints.ruleset import Rules
from autoscaler.core.model.fleet import Bucket, Fleet, InstanceType, Worker
from autoscaler.errors import SettingsError
from autoscaler.strict_modes import refuse_exposed

log = logging.getLogger("autoscaler.rules")


@dataclass(slots=True)
class RuleFiles:
    """Make it with `RuleFiles.load`."""

    path: Path | None
    """The file of rules; None: there are none."""
    sizes: VmSizes
    location: str = ""
    """The workers' region, from the provider; a location in the rules overrides it."""
    group: str | None = None
    """Members of this group may write the files."""
    _rules: Rules | None = field(default=None, init=False)
    _complaint: str = field(default="", init=False)
    _unknown: frozenset[str] = field(default=frozenset(), init=False)

    @classmethod
    def load(
        cls, path: Path | None, sizes: Path | None = None, *, location: str = "", group: str | None = None
    ) -> RuleFiles:
        """Raises SettingsError naming the file and the place inside it, or the command that corrects its mode."""
        if sizes is not None:
            refuse_exposed("the file of VM sizes", sizes, group=group)
        files = cls(path, load_vm_sizes(sizes), location, group)
        files._rules = None if path is None else files._read(path)
        return files

    def rules(self) -> Rules | None:
        """The rules of the current files; if these are invalid, the former rules."""
        if self.path is None:
            return None
        try:
            self._rules = self._read(self.path)
        except SettingsError as error:
            if str(error) != self._complaint:
                log.error("the former rules stay in force: %s", error)  # noqa: TRY400 - a sentence, no traceback
            self._complaint = str(error)
            return self._rules
        if self._complaint:
            log.info("the changed rules apply now")
        self._complaint = ""
        return self._rules

    def sized(self, fleet: Fleet) -> Fleet:
        """The fleet with its types completed by the file of VM sizes. Buckets of unknown size are left out."""
        workers = tuple(self._worker(worker) for worker in fleet.workers)
        buckets = [self._bucket(bucket) for bucket in fleet.buckets]
        self._report_unknown(frozenset(bucket.type.name for bucket in buckets if not _is_known(bucket.type)))
        return replace(fleet, workers=workers, buckets=tuple(one for one in buckets if _is_known(one.type)))

    def facts(self, rules: Rules | None, fleet: Fleet) -> Rules | None:
        """The rules with the facts on the types of this fleet that its provider does not report."""
        if rules is None:
            return None
        types = {*(bucket.type.name for bucket in fleet.buckets), *(worker.type.name for worker in fleet.workers)}
        known = ((name, self.sizes.facts(rules.location, name)) for name in sorted(types - rules.facts.keys()))
        facts: Mapping[str, SizeFacts] = {name: each for name, each in known if each is not None}
        return replace(rules, facts={**facts, **rules.facts})

    def _read(self, path: Path) -> Rules:
        refuse_exposed("the file of rules", path, group=self.group)
        return self._located(load_rules(path))

    def _located(self, rules: Rules) -> Rules:
        return replace(rules, location=rules.location or self.location)

    def _report_unknown(self, names: frozenset[str]) -> None:
        """Log each unknown size once."""
        for name in sorted(names - self._unknown):
            log.warning(
                "the size of %s is unknown, so it is not launched: describe it in the file of "
                "CP_CAP_AUTOSCALE_VM_SIZES",
                name,
            )
        self._unknown |= names

    def _worker(self, worker: Worker) -> Worker:
        type_ = self._type(worker.type)
        return worker if type_ is worker.type else replace(worker, type=type_)

    def _bucket(self, bucket: Bucket) -> Bucket:
        type_ = self._type(bucket.type)
        return bucket if type_ is bucket.type else replace(bucket, type=type_)

    def _type(self, offered: InstanceType) -> InstanceType:
        rules = self._rules
        location = rules.location if rules is not None else self.location
        facts = rules.facts.get(offered.name) if rules is not None else None
        facts = facts or self.sizes.facts(location, offered.name)
        if facts is None:
            return offered
        better = replace(
            offered,
            vcpus=offered.vcpus or facts.vcpu_count or 0,
            memory=offered.memory or int(facts.memory or 0),
            gpus=max(offered.gpus, facts.gpu_count or 0),
        )
        return offered if better == offered else better


def _is_known(type_: InstanceType) -> bool:
    return type_.vcpus > 0 and type_.memory > 0


def document_of(rules: Rules | None) -> str | None:
    """The rules as JSON that needs no other file; None: there are no rules."""
    return None if rules is None else stand_alone(rules, json.loads(rules.document)).document
