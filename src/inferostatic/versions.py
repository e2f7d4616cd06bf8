"""Versions: that of the library, which is stated here alone, and those of other packages."""

from importlib import metadata

__version__ = "0.1.0"


def find_version(name: str) -> str:
    """The version of a package; raises PackageNotFoundError where it is not installed.

    That of the library does not come from metadata, which a folder of sources on the path lacks, or
    has from an earlier installation.
    """
    return __version__ if name == "inferostatic" else metadata.version(name)
