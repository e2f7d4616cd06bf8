"""Self-contained HTML reports: `ist.report("report.html", events, estimator, diagnosis, fit)`.

The folder is called like the function that it is for, and Python makes a folder that is imported
an attribute of the package. So the folder can be called itself.
"""

import os
import sys
from pathlib import Path
from types import ModuleType


class _ReportModule(ModuleType):
    """A module that is called as `report.report.report` is."""

    def __call__(
        self, path: str | os.PathLike[str], *results: object, title: str | None = None
    ) -> Path:
        """Write one self-contained HTML file about results; see `report.report.report`."""
        from .report import report  # loads matplotlib and jinja2

        return report(path, *results, title=title)


sys.modules[__name__].__class__ = _ReportModule
