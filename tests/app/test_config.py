"""`study.toml`: what is wrong is named, with its value and what is allowed."""

from pathlib import Path

import pytest

from inferostatic.app.config.faults import StudyError
from inferostatic.app.config.reading import FILE, MOST_BYTES, parse_study, read_study
from inferostatic.app.study.build import build_method, build_network, build_prior, build_training
from tiny_study import STUDY


def complaint(text: str) -> list[str]:
    with pytest.raises(StudyError) as caught:
        parse_study(text)
    return caught.value.problems


def replaced(old: str, new: str) -> str:
    assert old in STUDY
    return STUDY.replace(old, new)


#: Changes of a good file, and the line that the error must have.
WRONG = {
    "unknown key": (
        ("epochs = 20", "epocs = 2"),
        "fit.epocs is no key that this table knows; did you mean epochs? It may have method, ",
    ),
    "unknown table": (("[fit]", "[fitt]"), "fitt is no key that this table knows; did you mean "),
    "a text": (
        ("events = 600", 'events = "many"'),
        "simulate.events must be a whole number from 1 to 1,000,000,000, the events to train on; "
        'got "many".',
    ),
    "a truth value": (("events = 600", "events = true"), "simulate.events must be a whole"),
    "a fraction": (("epochs = 20", "epochs = 2.5"), "fit.epochs must be a whole number from 1"),
    "none": (("epochs = 20", "epochs = 0"), "the passes over the events; got 0."),
    "too many": (("events = 600", f"events = 1{'0' * 30}"), "got 1000000000000000000000000000000."),
    "missing": (("seed = 3", ""), "seed is missing; it must be a whole number from 0 to 4,294,"),
    "no number": (("low = -2.0", "low = nan"), "prior.a.low must be a number, the lower edge"),
    "infinite": (("low = -2.0", "low = -inf"), "prior.a.low must be a number, the lower edge"),
    "1e400": (("low = -2.0", "low = -1e400"), "prior.a.low must be a number, the lower edge"),
    "10**400": (("low = -2.0", f"low = 1{'0' * 400}"), "prior.a.low must be a number"),
    "order": (("low = -2.0", "low = 3.0"), "prior.a.low must lie below high; got 3 and 2."),
    "half a prior": (("low = -2.0, ", ""), "prior.a must have low and high (uniform), mean and"),
    "discrete": (("low = -2.0, high = 2.0", "values = [1]"), "prior.a has values, and others"),
    "std": (("std = 1.0", "std = 0.0"), "prior.b.std must be a number above 0"),
    "a name": (("\nb = ", '\n"b\\u0007" = '), 'prior."b\\u0007" is no name'),
    "theta": (("a = 0.5, ", ""), 'infer.simulated.theta must have a value for each parameter; "a"'),
    "theta's name": (("a = 0.5", "c = 0.5"), "infer.simulated.theta.c is no parameter of the"),
    "theta's kind": (("a = 0.5", "a = [1]"), "infer.simulated.theta.a must be a number; got [1]."),
    "both data": (("[infer.simulated]", '[infer]\ndata = "x.csv"\n[infer.simulated]'), "got both"),
    "kind": (('"mlp"', '"MLP"'), 'fit.network.kind must be "mlp" or "residual"; got "MLP".'),
    "of another kind": (("widths = [8]", "blocks = 8"), "fit.network.blocks is not for a network"),
    "kernel": (("epochs = 20", 'kernel = "delta"'), "fit.kernel is for method ="),
    "no kernel": (("epochs = 20", 'method = "KSE"'), "fit.kernel is missing; KSE needs one."),
    "two simulators": (("[prior]", 'module = "a:b"\n[prior]'), "got file and module"),
    "a module": (
        ('file = "simulator_of_a_study.py"', 'module = "a b"'),
        'simulator.module must be "package.module:function"; got "a b".',
    ),
    "no Python": (("a_study.py", "a_study.sh"), "simulator.file must be a Python file"),
    "a program's": (
        ("[prior]", "time_limit = 3\n[prior]"),
        "simulator.time_limit is for a program",
    ),
    "format": (("format = 1", "format = 2"), "format must be 1, the version of the format"),
    "no table": (("seed = 3", "seed = 3\ndiagnose = 3"), "diagnose must be a table with obs"),
    "calibration": (
        ("validation = 400", "[infer.calibrated_fit]\ncalibration = 'validation'"),
        'infer.calibrated_fit.calibration is "validation", but simulate.validation is 0',
    ),
    "level": (
        ("[infer.maximum_likelihood]", "[infer.maximum_likelihood]\nlevel = 1.0"),
        "infer.maximum_likelihood.level must be a number between 0 and 1",
    ),
    "a set of others": (
        ("[infer.maximum_likelihood]", "[[infer.confidence_set]]\nparameters = ['c']"),
        "infer.confidence_set[1].parameters is no parameter of the prior, which has",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case: str) -> None:
    change, expected = WRONG[case]
    assert any(expected in line for line in complaint(replaced(*change)))


def test_all_faults_are_named_at_once() -> None:
    text = replaced("epochs = 20", "epocs = 2").replace("seed = 3", "seed = -1")
    assert len(complaint(text)) == 2


def test_a_long_list_of_faults_is_cut() -> None:
    with pytest.raises(StudyError, match="and 28 more"):
        parse_study("".join(f"k{i} = 1\n" for i in range(35)))


@pytest.mark.parametrize(
    "text", ["a = ", "a = 'x", "\x00", f"a = {'[' * 3000}", f"a = {'9' * 5000}"]
)
def test_no_toml(text: str) -> None:
    (line,) = complaint(text)
    assert "no TOML" in line or "nested" in line


def test_files_that_are_none(tmp_path: Path) -> None:
    def refusal() -> str:
        with pytest.raises(StudyError) as caught:
            read_study(tmp_path)
        return str(caught.value)

    file = tmp_path / FILE
    assert "`inferostatic new FOLDER` writes one" in refusal()
    file.write_bytes(b"title = '\xff'")
    assert "it is not UTF-8: byte 9 is 0xff" in refusal()
    file.write_bytes(b"#" * (MOST_BYTES + 1))
    assert "more than" in refusal()
    file.unlink()
    file.symlink_to("/dev/zero")
    assert "it is no regular file" in refusal()
    file.unlink()
    file.symlink_to(file)
    assert "symbolic links" in refusal()
    file.unlink()
    file.mkdir()
    assert "it is no regular file" in refusal()
    with pytest.raises(StudyError, match="no file has such a name"):
        read_study("a\0b")


def test_priors() -> None:
    kinds = {
        "a = { low = 0, high = 1 }": "Uniform",
        "a = { mean = 0, std = 1 }\nb = { mean = 0, std = 1, low = 0 }": "Product",
        "a = { values = [1, 2] }\nb = { values = [0, 1, 2] }": "Discrete",
    }
    start, end = STUDY.index("a = "), STUDY.index("[simulate]")
    for text, kind in kinds.items():
        names = [line[0] for line in text.splitlines()]
        theta = ", ".join(f"{name} = 1" for name in names)
        whole = STUDY[:start] + text + "\n" + STUDY[end:].replace("a = 0.5, b = -0.5", theta)
        prior = build_prior(parse_study(whole))
        assert (type(prior).__name__, list(prior.names)) == (kind, names)
        assert prior.sample(5, seed=1).shape == (5, len(names))


def test_methods_networks_and_trainings() -> None:
    settings = STUDY[STUDY.index("epochs = ") : STUDY.index("[infer.simulated]")]
    plain = parse_study(replaced(settings, ""))
    assert (build_method(plain.fit), build_network(plain.fit)) == (None, None)
    assert build_training(plain.fit) is None
    text = replaced(
        "epochs = 20", 'epochs = 20\nmethod = "KLRE"\nkernel = "rectangular"\nwidth = 0.4'
    )
    fit = parse_study(text).fit
    assert str(build_method(fit)).startswith("KLRE")
    assert build_network(fit).widths == (8,)
    training = build_training(fit)
    assert training is not None
    assert training.epochs == 20
    fit = parse_study(replaced('kind = "mlp", widths = [8]', 'kind = "residual", width = 8')).fit
    assert (build_network(fit).width, build_network(fit).blocks) == (8, 2)
