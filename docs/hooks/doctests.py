"""Examples in docstrings are shown as code, also where no heading stands above them."""

import re
from typing import Any

import griffe

#: From a prompt to the next empty line, wherever it is indented to.
EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?P=indent)\S.*)*", re.MULTILINE)
#: Griffe shows these by itself.
SECTION = re.compile(r"^ *Examples?:\n", re.MULTILINE)


def fence(text: str) -> str:
    """The docstring with a fence around each example."""
    if SECTION.search(text):
        return text
    return EXAMPLE.sub(r"\g<indent>```pycon\n\g<0>\n\g<indent>```", text)


class Doctests(griffe.Extension):
    """Applies this to every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401
        """Called by griffe for each object that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = fence(obj.docstring.value)
