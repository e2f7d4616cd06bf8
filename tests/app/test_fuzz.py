"""Wrong files, wrong command lines and broken surroundings end in clear errors and nothing else.

Nothing ends in a traceback, nothing leaves a partial file, and what is refused leaves the folder as
it was. Most cases run in this process; those that need one of their own are slow.
"""

import datetime
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic.fields import FieldInfo
from typer.testing import Result

from inferostatic.app.config.faults import StudyError, unwrap
from inferostatic.app.config.reading import parse_study
from inferostatic.app.config.study_tables import StudyTable
from inferostatic.app.config.table import AbstractTable
from inferostatic.app.study.folder import open_study
from inferostatic.app.study.plan import plan
from tiny_study import STUDY, call, write_study

#: Values that are wrong by their kind, as TOML writes them, by what a field holds.
EVERYWHERE = ["{ x = 1 }", "1979-05-27", '[{ "\\u202e" = 1 }]']
TEXTS = ['"../../etc/passwd"', '"\\u0000\\u202e"']
NO_NUMBERS = ["true", "nan", "1e400", f"{10**400}"]
LONG = f'"{"a" * 5000}"'
WRONG: dict[Any, list[str]] = {
    bool: [*EVERYWHERE, "1", '"true"', "nan"],
    int: [*EVERYWHERE, *TEXTS, *NO_NUMBERS, "1.5", "-1", f"{10**30}"],
    float: [*EVERYWHERE, *TEXTS, *NO_NUMBERS, "-inf", f"{'9' * 5000}"],
    str: [*EVERYWHERE, "1", "true", "[]", LONG],
    list: ["1", "true", '"a"', "{ x = 1 }", "[[[]]]", "[nan]", "[1979-05-27]"],
    dict: ["1", '"a"', "[]", "{ a = 'x' }", "{ '' = true }", "1979-05-27"],
}


def list_fields(
    table: type[AbstractTable], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Every field of the file, by its keys; of a list of tables the first."""
    for name, field in table.model_fields.items():
        kind, inner = unwrap(field.annotation)
        here = (*path, name)
        if name == "prior":
            here, kind = (*path, "prior", "a"), inner
        elif kind is list and isinstance(inner, type) and issubclass(inner, AbstractTable):
            here, kind = (*path, f"[{name}]"), inner
        if isinstance(kind, type) and issubclass(kind, AbstractTable):
            yield from list_fields(kind, here)
        else:
            yield here, field


def list_wrong_files() -> Iterator[tuple[str, str]]:
    """A name and the text of each file, with one field that is wrong."""
    for path, field in list_fields(StudyTable):
        kind, _ = unwrap(field.annotation)
        choices = WRONG.get(kind, WRONG[int])  # one of a few words or numbers
        for number, value in enumerate(choices):
            yield f"{'.'.join(path)}-{number}", write_value(path, value)


def write_value(path: tuple[str, ...], value: str) -> str:
    """The good file with one value in it, whatever was there."""
    *owners, key = path
    header = ".".join(owner.strip("[]") for owner in owners)
    if not owners:
        return f"{key} = {value}\n" + "\n".join(
            line for line in STUDY.splitlines() if not line.startswith(f"{key} =")
        )
    many = owners[-1].startswith("[")
    head = f"[[{header}]]" if many else f"[{header}]"
    if header == "prior.a":
        return STUDY.replace("a = { low = -2.0, high = 2.0 }", f"a = {{ {key} = {value} }}")
    if header == "fit.network":
        return STUDY.replace('{ kind = "mlp", widths = [8] }', f"{{ {key} = {value} }}")
    if head not in STUDY:
        return f"{STUDY}\n{head}\n{key} = {value}\n"
    before, _, after = STUDY.partition(f"{head}\n")
    own, bracket, rest = after.partition("\n[")
    kept = "\n".join(line for line in own.splitlines() if not line.startswith(f"{key} ="))
    return f"{before}{head}\n{key} = {value}\n{kept}{bracket}{rest}"


WRONG_FILES = dict(list_wrong_files())
#: Whole files.
WRONG_TEXTS = {
    "empty": "",
    "binary": "\x00\x01",
    "a byte order mark": "\ufeff" + STUDY,
    "twice": STUDY + STUDY,
    "deep": "a = " + "[" * 900 + "]" * 900,
    "deeper": "a = " + "[" * 20_000,
    "dotted": ".".join("a" * 2000) + " = 1",
    "many keys": "".join(f"k{i} = 1\n" for i in range(5000)),
    "right to left": STUDY.replace("[prior]", '"\\u202e" = 1\n[prior]'),
    "an escape": STUDY.replace("[prior]", '"\\u001b[2J" = "\\u001b[2J"\n[prior]'),
    "a parameter of spaces": STUDY.replace("\na = {", '\n" " = {'),
    "JSON": json.dumps({"format": 1}),
    "carriage returns": STUDY.replace("\n", "\r"),
    "lone surrogate": STUDY.replace("A tiny", "\\ud800"),
    "many points": STUDY.replace("low = -2.0, high = 2.0", f"values = {list(range(20_000))}"),
    "today": f"format = {datetime.date(2022, 10, 4)}",
}


def judge(result: Result, folder: Path) -> None:
    """No traceback, no partial file, some words."""
    assert isinstance(result.exception, SystemExit | None), repr(result.exception)
    assert "Traceback" not in result.output
    assert not list(folder.rglob("*.part"))
    assert result.exit_code in (0, 1, 2)
    assert result.output.strip()
    if "Usage: " not in result.output:  # what was typed itself is repeated as it is
        assert "\x1b[2J" not in result.output
        assert "\u202e" not in result.output


def list_files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
        if not path.is_symlink() or path.exists()
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("fuzz") / "study")


def test_there_are_enough_cases() -> None:
    assert len(WRONG_FILES) + len(WRONG_TEXTS) > 400
    assert len({path[0] for path in map(lambda name: name.split("."), WRONG_FILES)}) >= 10


def test_wrong_files() -> None:
    """Each is refused, and the field is named."""
    for name, text in {**WRONG_FILES, **WRONG_TEXTS}.items():
        with pytest.raises(StudyError) as caught:
            parse_study(text)
        told = str(caught.value)
        assert told.startswith("study.toml cannot be used:\n"), name
        assert "\u202e" not in told, name
        if name in WRONG_FILES and "no TOML" not in told:
            assert name.rpartition("-")[0].split(".")[-1] in told, (name, told)


def test_commands_of_wrong_files(folder: Path) -> None:
    """`run` leaves the folder as it was."""
    some = dict(itertools.islice(WRONG_FILES.items(), 0, None, 9))
    for name, text in {**some, **WRONG_TEXTS}.items():
        (folder / "study.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
        before = list_files(folder)
        result = call("run", folder)
        judge(result, folder)
        assert result.exit_code == 2, (name, result.output)
        assert "study.toml cannot be used:" in result.output, name
        assert list_files(folder) == before, name


COMMANDS = ("run", "simulate", "fit", "diagnose", "infer", "reweight", "report", "status")
#: Arguments in place of a folder.
PATHS = (
    "",
    ".",
    "nowhere",
    "\0",
    "a\0b",
    "a" * 300,
    "/".join("a" * 3000),
    "/dev/null",
    "/dev/zero",
    "/proc/self/mem",
    "study.toml",
    "study.toml/x",
    "loop",
    "dangling",
    "../" * 50 + "etc",
    "\udcff",
    "\u202e",
    "\x1b[2J",
    "~nobody/x",
    "-",
    "--",
    "%s%n",
    "{0}",
    "a\nb",
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file and links that lead nowhere, and no study."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    (tmp_path / "study.toml").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")
    return tmp_path


def test_wrong_paths(place: Path) -> None:
    before = list_files(place)
    for command, path in itertools.product((*COMMANDS, "info"), PATHS):
        result = call(command, path)
        judge(result, place)
        assert result.exit_code in (1, 2), (command, path, result.output)
        assert list_files(place) == before, (command, path)
    for path in PATHS:
        result = call("compare", path, path)
        judge(result, place)
        assert result.exit_code == 2


def test_wrong_folders_for_a_new_study(place: Path) -> None:
    (place / "file").write_text("")
    (place / "taken").mkdir()
    (place / "taken" / "study.toml").symlink_to("nothing")
    before = list_files(place)
    for path in ("", "\0", "file", "file/x", "loop", "dangling", "taken", "/proc/x", "a" * 300):
        for more in ([], ["--slurm", "--snakemake"]):
            result = call("new", path, *more)
            judge(result, place)
            assert result.exit_code in (1, 2), (path, result.output)
            assert list_files(place) == before, path


OPTIONS = (
    ["--workers", "0"],
    ["--workers", "-1"],
    ["--workers", "1e3"],
    ["--workers", "9" * 5000],
    ["--workers", "٣x"],
    ["--workers"],
    ["--parts", "1/1"],
    ["--parts", "1/0"],
    ["--parts", f"0/{'9' * 30}x"],
    ["--parts", "٠/٢"],
    ["--parts", "0/2/3"],
    ["--parts", ""],
    ["--parts", "a" * 5000],
    ["--events", "nan"],
    ["--events", "0"],
    ["--seed", "-1"],
    ["--seed", "1.5"],
    ["--store", ""],
    ["--josn"],
    ["--json=yes"],
    ["--strict=1"],
    ["--verify", "extra", "words"],
    ["\x1b[2J"],
    ["--\u202e"],
)


def test_wrong_options(folder: Path) -> None:
    (folder / "study.toml").write_text(STUDY)
    before = list_files(folder)
    for command, options in itertools.product(COMMANDS, OPTIONS):
        result = call(command, folder, *options)
        judge(result, folder)
        assert result.exit_code == 2, (command, options, result.output)
        assert list_files(folder) == before, (command, options)
    for arguments in (["rnu"], [""], ["\0"], ["--verison"], ["compare", folder], ["info"], ["new"]):
        judge(call(*arguments), folder)


def test_wrong_models(tmp_path: Path) -> None:
    contents = [b"", b"PK\x03\x04", b"\x80\x04K\x01.", os.urandom(1000), b"{}", b"\x00" * 10**6]
    for content in contents:
        file = tmp_path / "model.isn"
        file.write_bytes(content)
        result = call("info", file)
        judge(result, tmp_path)
        assert result.exit_code == 1


DAMAGED = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"1",
    b'{"format": 1}',
    b'{"format": 2}',
    b"\xff",
    b"[" * 5000,
]


def test_a_damaged_run_folder(tmp_path: Path) -> None:
    """Records that are no records count as steps that did not end."""
    study = write_study(tmp_path / "study")
    steps = json.loads(call("status", study, "--json").stdout)
    assert steps["complete"] is False
    opened = open_study(study)
    for step, content in itertools.product(plan(opened), DAMAGED):
        step.folder(opened).mkdir(parents=True, exist_ok=True)
        (step.folder(opened) / "record.json").write_bytes(content)
        for command in ("status", "report", "compare"):
            more = [study] if command == "compare" else []
            result = call(command, study, *more)
            judge(result, study)
        assert step.find(opened) is None
    (study / "run" / "log.txt").symlink_to("/dev/full")
    (study / "report.html").symlink_to("/dev/full")
    judge(call("fit", study), study)
    judge(call("report", study), study)


DRIVER = """
import sys
sys.argv[0] = "inferostatic"
from inferostatic.app.cli import main
main()
"""
#: Lines for a shell with the exit status that they must have, or several.
LINES: dict[str, tuple[int, ...]] = {
    "I new made >&-": (0,),
    "I new made 2>&-": (0,),
    "I new made > /dev/full": (1,),
    "I status good >&- 2>&-": (1,),
    "I status good > /dev/full": (1,),
    "I status good --json > /dev/full": (1,),
    "I status good < /dev/null | head -c 1": (0,),
    "I --help > /dev/full": (1,),
    "I --cite > /dev/full": (1,),
    "I --cite | head -c 1": (0,),
    "I --version >&-": (0,),
    "PYTHONIOENCODING=ascii I status good": (1,),
    "LC_ALL=C I run bad": (2,),
    "PYTHONIOENCODING=ascii I run bad": (2,),
    "I run bad 2> /dev/full": (2,),
    "I run bad 2>&-": (2,),
    "(ulimit -f 0; I new made)": (1,),
    "(ulimit -f 0; I simulate good)": (1,),
    "(ulimit -f 1; I simulate good)": (1,),
    "(ulimit -f 4; I run good)": (1,),
    "(ulimit -n 12; I simulate good)": (0, 1),
    "I run good/../good/./nothing": (2,),
    "I simulate good > /dev/full": (1,),
    "I simulate good >&- 2>&- <&-": (0,),
    "I report good > /dev/full": (1,),
    "env -i HOME=/nonexistent PYTHONPATH=$PYTHONPATH I status good": (1,),
    "I info /dev/zero": (2,),
    "I info good/study.toml": (1,),
    "cd good && I status .": (1,),
    "I new $'made\\xff' && I status $'made\\xff'": (1,),
}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[] if number in (0, 17) else pytest.mark.slow)
        for number, line in enumerate(LINES)
    ],
)
def test_processes(tmp_path: Path, line: str) -> None:
    write_study(tmp_path / "good")
    write_study(tmp_path / "bad", STUDY.replace("epochs", '"épochs\\u202e"'))
    (tmp_path / "driver.py").write_text(DRIVER)
    process = subprocess.run(
        line.replace("I ", f"{sys.executable} {tmp_path / 'driver.py'} "),
        shell=True,
        executable="/bin/bash",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        errors="backslashreplace",
        timeout=120,
        check=False,
    )
    assert process.returncode in LINES[line], process.stderr
    assert "Traceback" not in process.stderr
    assert "Exception ignored" not in process.stderr
    assert not list(tmp_path.rglob("*.part"))
    if "ulimit -f 0; I new" in line:
        assert not (tmp_path / "made").exists()
