"""The page on the command line names all keys of `study.toml`, with what they must be."""

from pathlib import Path

from inferostatic.app.cli import app
from inferostatic.app.config.faults import unwrap
from inferostatic.app.config.reading import parse_study
from inferostatic.app.config.study_tables import StudyTable
from inferostatic.app.config.table import AbstractTable

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"


def list_keys(table: type[AbstractTable] = StudyTable, head: str = "") -> list[str]:
    """The reference of the page, from the tables themselves."""
    rows, inner = [], []
    for name, field in table.model_fields.items():
        kind, item = unwrap(field.annotation)
        many = kind is list and isinstance(item, type) and issubclass(item, AbstractTable)
        one = item if many or name == "prior" else kind
        path = f"{head}.{name}" if head else name
        if isinstance(one, type) and issubclass(one, AbstractTable):
            shown = f"[[{path}]]" if many else f"[{path}]"
            title = "an entry of `[prior]`" if name == "prior" else f"`{shown}`"
            inner += ["", f"{title[0].upper()}{title[1:]}", "", *list_keys(one, path)]
            continue
        default = "needed" if field.is_required() else show_default(field.default)
        rows.append(f"| `{name}` | {field.description} | {default} |")
    return ["| key | must be | default |", "|---|---|---|", *rows, *inner]


def show_default(value: object) -> str:
    if value in (None, "", [], {}):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else f"`{value}`"


def test_the_page_has_all_keys() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "\n".join(list_keys()) in page


def test_the_page_has_all_commands() -> None:
    page = PAGE.read_text(encoding="utf-8")
    commands = [
        command.callback.__name__ for command in app.registered_commands if command.callback
    ]
    assert len(commands) == 12
    for name in commands:
        assert f"| `{name} " in page, name


def test_the_examples_are_valid() -> None:
    """All blocks of TOML together are one study, with one simulator and one source of data."""
    blocks = PAGE.read_text(encoding="utf-8").split("```toml\n")[1:]
    texts = [block.split("```")[0] for block in blocks]
    simulators = [text for text in texts if text.startswith("[simulator]")]
    (prior,) = [text for text in texts if text.startswith("[prior]")]
    data = [text for text in texts if text.startswith(("[infer]\n", "[infer.simulated]"))]
    (questions,) = [text for text in texts if text.startswith("[infer.maximum_likelihood]")]
    assert (len(simulators), len(data)) == (3, 2)
    head = "format = 1\nseed = 1\n"
    simulate = "[simulate]\nevents = 1000\nvalidation = 500\n"
    for simulator in simulators:
        for one in data:
            if "command" in simulator:
                one = one.replace('rate = "expected', '# "')
            study = parse_study(head + simulator + prior + simulate + one + questions)
            assert study.infer is not None
            assert list(study.prior) == ["mass", "scale", "rate"]
