"""Reading `study.toml`: a regular file of moderate size, valid TOML, valid fields, known names."""

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .checks import check_study
from .faults import Fault, StudyError, find_unknown_keys, list_problems, shorten
from .study_tables import StudyTable

#: The name of the file in a study's folder.
FILE = "study.toml"
#: Bytes that it may have: a thousand times what people write.
MOST_BYTES = 2**20


def read_study(folder: str | os.PathLike[str]) -> StudyTable:
    """The study in a folder; `StudyError` says what is wrong with its file."""
    path = Path(folder) / FILE
    return parse_study(_read_text(path), str(path))


def parse_study(text: str, name: str = FILE) -> StudyTable:
    """The study that a text describes; `name` is that of the file, for messages."""
    try:
        data: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise StudyError(name, [Fault((), "it is nested too deeply.")]) from None
    except ValueError as error:  # also an integer with thousands of digits
        raise StudyError(name, [Fault((), f"it is no TOML: {shorten(str(error))}")]) from None
    problems = list(find_unknown_keys(StudyTable, data))
    try:
        study = StudyTable.model_validate(data)
    except ValidationError as error:
        problems += list_problems(StudyTable, error)
    except (OverflowError, RecursionError) as error:
        problems.append(Fault((), f"a number or a table is too large ({shorten(str(error))})."))
    else:
        problems += check_study(study)
        if not problems:
            return study
    raise StudyError(name, problems) from None


def _read_text(path: Path) -> str:
    if "\0" in str(path):
        raise StudyError(repr(str(path)), [Fault((), "no file has such a name.")])
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise StudyError(str(path), [Fault((), "it is no regular file.")])
        with path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        advice = ""
        if isinstance(error, FileNotFoundError):
            advice = " `inferostatic new FOLDER` writes one to begin with."
        raise StudyError(str(path), [Fault((), f"{error.strerror}.{advice}")]) from None
    if len(content) > MOST_BYTES:
        raise StudyError(str(path), [Fault((), f"it has more than {MOST_BYTES:,} bytes.")])
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        text = f"it is not UTF-8: byte {error.start} is {content[error.start]:#x}."
        raise StudyError(str(path), [Fault((), text)]) from None
