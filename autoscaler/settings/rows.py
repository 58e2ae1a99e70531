"""A row of settings: name, environment name, type, unit, default, help.

Everything else is derived from the rows: loading, validation, the sample file in `conf/`, the reference page in
`docs/`, `config show`. `process_settings.Process` has the settings that exist once, `queue_settings.QueueSettings`
those that a further queue may have under a suffix `_1`, `_2`, …. Parameters that Cloud Pipeline's users already set
keep their names and defaults. The field `no_effect` of a known setting says why it does nothing here.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from autoscaler.durations import seconds_of

Seconds = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]


def setting(
    env: str, default: Any, explanation: str, *, unit: str = "", no_effect: str = "", also: str = "", provider: str = ""
) -> Any:
    """One row. `also`: a variable of the master container that is read when the setting itself is not set.
    `provider`: the only one that uses it, by its own model.
    """
    extra = {"unit": unit, "no_effect": no_effect, "also": also, "provider": provider}
    return Field(
        default=default, alias=env, description=explanation, json_schema_extra={k: v for k, v in extra.items() if v}
    )


ONLY_CLOUD_PIPELINE = "only the provider `cloud_pipeline` needs it"


def without_effect(env: str, default: Any, why: str, *, unit: str = "") -> Any:
    """A setting of Cloud Pipeline that does nothing here."""
    return setting(env, default, "", unit=unit, no_effect=why)


def of_platform(env: str, default: Any, *, unit: str = "", also: str = "", explanation: str = "") -> Any:
    """A setting that only the provider `cloud_pipeline` uses."""
    return setting(
        env, default, explanation, unit=unit, also=also, no_effect=ONLY_CLOUD_PIPELINE, provider="cloud_pipeline"
    )


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _durations(cls, value: object, info: ValidationInfo) -> object:
        """Accept `10m` for a number of seconds."""
        extra = cls.model_fields[info.field_name or ""].json_schema_extra
        if isinstance(value, str) and isinstance(extra, dict) and extra.get("unit") == "s":
            seconds = seconds_of(value)
            return value if seconds is None else seconds
        return value


def rows(section: type[BaseModel]) -> dict[str, str]:
    """Environment name → field name of a section, in the order of the table."""
    return {str(info.alias): name for name, info in section.model_fields.items()}


def extra(section: type[BaseModel], field: str, key: str) -> str:
    """`unit`, `no_effect`, `also` or `provider` of a row; '' if it has none."""
    value = section.model_fields[field].json_schema_extra
    return str(value.get(key, "")) if isinstance(value, dict) else ""
