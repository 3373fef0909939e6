"""The folder of the tests of file formats."""

from tests.data.test_file_formats import folder  # noqa: F401 (a fixture)
