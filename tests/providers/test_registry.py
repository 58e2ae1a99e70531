"""Providers are found by name or import path, and their settings are checked as strictly as all others."""

from collections.abc import Mapping

import pytest

from autoscaler.errors import SettingsError
from autoscaler.providers import registry
from autoscaler.providers.aws.settings import AwsSettings
from autoscaler.providers.azure.settings import AzureSettings
from autoscaler.providers.cloud_pipeline.settings import CloudPipelineSettings
from autoscaler.providers.cyclecloud.settings import CycleCloudSettings
from autoscaler.providers.fake import FakeProvider
from autoscaler.providers.local.settings import LocalSettings
from autoscaler.providers.settings import ExtensionSettings, Names, read_settings
from autoscaler.settings.loading import load_settings


class SampleSettings(ExtensionSettings):
    env_prefix = "CP_CAP_AUTOSCALE_SAMPLE_"

    region: str
    types: Names = ()
    seconds: float = 1.5
    verbose: bool = False


def the_error(values: Mapping[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        read_settings(SampleSettings, values)
    return str(caught.value)


def test_a_provider_is_found_by_its_installed_name() -> None:
    assert isinstance(registry.load("fake", {}, "cell"), FakeProvider)


def test_a_provider_is_found_by_import_path() -> None:
    assert registry.provider_class("autoscaler.providers.fake:FakeProvider") is FakeProvider


def test_a_provider_gets_its_settings_and_its_cell() -> None:
    provider = registry.load("fake", {"CP_CAP_AUTOSCALE_FAKE_BOOT_DELAY": "7"}, "cell-1")

    assert isinstance(provider, FakeProvider)
    assert (provider.cloud.boot_delay, provider.cell) == (7.0, "cell-1")


def test_an_unknown_name_lists_the_known_and_suggests_the_closest() -> None:
    with pytest.raises(SettingsError, match=r"did you mean fake\? Known are .*fake.*local"):
        registry.load("fakes", {}, "cell")


@pytest.mark.parametrize(
    ("path", "message"),
    (
        ("no.such.module:Class", "cannot be imported"),
        ("autoscaler.providers.fake:Nothing", "cannot be imported"),
        ("autoscaler.providers.fake:", "is not an import path"),
        ("autoscaler.providers.fake:LISTED_AFTER_END", "is not a class"),
        ("autoscaler.providers.fake:FakeCloud", "is not a provider: it has no name, enrols_itself, Settings, buckets"),
    ),
)
def test_a_name_that_is_not_a_provider_is_refused(path: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        registry.provider_class(path)


def test_prefixes_of_installed_providers_are_known() -> None:
    assert "CP_CAP_AUTOSCALE_FAKE_" in registry.known_prefixes()


def test_the_prefix_of_a_chosen_provider_that_is_installed_nowhere_is_known() -> None:
    assert "CP_CAP_AUTOSCALE_FAKE_" in registry.known_prefixes("autoscaler.providers.fake:FakeProvider")


def test_no_provider_is_imported_for_its_prefix_unless_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "provider_class", lambda _: pytest.fail("imported"))
    assert "CP_CAP_AUTOSCALE_LOCAL_" in registry.known_prefixes()


def test_settings_are_read_from_the_given_values() -> None:
    settings = read_settings(
        SampleSettings,
        {
            "CP_CAP_AUTOSCALE_SAMPLE_REGION": "north",
            "CP_CAP_AUTOSCALE_SAMPLE_TYPES": "m5.large, c5.large",
            "CP_CAP_AUTOSCALE_SAMPLE_SECONDS": "",
            "CP_CAP_AUTOSCALE_SAMPLE_VERBOSE": "yes",
            "CP_CAP_AUTOSCALE_WORKERS": "3",
        },
    )

    assert (settings.region, settings.types, settings.seconds) == ("north", ("m5.large", "c5.large"), 1.5)
    assert settings.verbose
    assert isinstance(settings, SampleSettings)


def test_settings_are_not_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CP_CAP_AUTOSCALE_SAMPLE_REGION", "from the environment")

    assert the_error({}).endswith("CP_CAP_AUTOSCALE_SAMPLE_REGION: Field required")


def test_an_unknown_setting_under_the_prefix_is_an_error_with_a_suggestion() -> None:
    error = the_error({"CP_CAP_AUTOSCALE_SAMPLE_REGION": "x", "CP_CAP_AUTOSCALE_SAMPLE_SECOND": "1"})

    assert "CP_CAP_AUTOSCALE_SAMPLE_SECOND is not a setting; did you mean CP_CAP_AUTOSCALE_SAMPLE_SECONDS?" in error


def test_every_wrong_value_is_named_at_once() -> None:
    error = the_error({"CP_CAP_AUTOSCALE_SAMPLE_SECONDS": "soon", "CP_CAP_AUTOSCALE_SAMPLE_VERBOSE": "perhaps"})

    assert "CP_CAP_AUTOSCALE_SAMPLE_SECONDS = 'soon': " in error
    assert "CP_CAP_AUTOSCALE_SAMPLE_VERBOSE = 'perhaps': " in error
    assert "CP_CAP_AUTOSCALE_SAMPLE_REGION: Field required" in error


def test_a_prefix_that_covers_all_settings_is_refused() -> None:
    class Greedy(ExtensionSettings):
        env_prefix = "CP_CAP_AUTOSCALE_"

    with pytest.raises(SettingsError, match="needs its own env_prefix"):
        read_settings(Greedy, {})


@pytest.mark.parametrize(
    "model",
    (AwsSettings, AzureSettings, CloudPipelineSettings, CycleCloudSettings, LocalSettings),
    ids=lambda m: m.__name__,
)
def test_no_provider_setting_accepts_infinity_or_nan(model: type[ExtensionSettings]) -> None:
    assert model.model_config.get("allow_inf_nan") is False


def test_own_settings_of_a_provider_that_cannot_be_imported_are_reported_with_the_failed_import() -> None:
    environ = {"CP_CAP_AUTOSCALE_PROVIDER": "no_such_pool:Pool", "CP_CAP_AUTOSCALE_POOL_HOSTS": "a,b"}
    with pytest.raises(SettingsError) as wrong:
        load_settings(environ, known_prefixes=registry.known_prefixes, strict=True)
    first, second = str(wrong.value).splitlines()[1:]
    assert "no_such_pool:Pool cannot be imported: No module named 'no_such_pool'" in first
    assert "CP_CAP_AUTOSCALE_POOL_HOSTS in the environment is not a setting" in second
