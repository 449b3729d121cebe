"""The pytest plugin of users, for pytests that tests start: it is installed with asyncjobs, by those who installed it since."""

from collections.abc import Mapping
from importlib.metadata import entry_points

PLUGIN = "asyncjobs.testing.plugin"
IS_INSTALLED = any(point.value == PLUGIN for point in entry_points(group="pytest11"))


def with_plugin(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a pytest that has the plugin."""
    return dict(environment) if IS_INSTALLED else {**environment, "PYTEST_PLUGINS": PLUGIN}
