"""The device of the tests of captured steps."""

from tests.capture.conftest import device  # noqa: F401 (a fixture)
