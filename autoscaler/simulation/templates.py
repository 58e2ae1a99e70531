"""Pages of the simulation, from the templates in `conf/simulation`. All texts are escaped."""

from __future__ import annotations

from importlib import resources

import jinja2

from autoscaler.report.wording import duration


def rendered(template: str, **values: object) -> str:
    """The page of a template; another template may be included by its name."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, loader=jinja2.FunctionLoader(_text)
    )
    environment.filters["duration"] = duration
    return environment.get_template(template).render(**values)


def _text(name: str) -> str:
    return (resources.files("autoscaler.conf") / "simulation" / name).read_text(encoding="utf-8")
