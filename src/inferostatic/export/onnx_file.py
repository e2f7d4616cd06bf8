"""ONNX files: potential, score and log ratio for onnxruntime, and for what else reads ONNX."""

import dataclasses
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..estimator.estimator import AbstractEstimator
from ..files import require_file, write_whole
from ..inputs import as_count, as_flag, as_path
from ..packages import import_package
from ..summary import AbstractSummarised, Summary, tabulate_facts
from .metadata import describe_export
from .onnx_trace import add_question, start_graph
from .parity import (
    ExportError,
    Points,
    choose_points,
    exact_values,
    questions_of,
    require_parity,
)

#: Version of the operators in files, unless another is asked for: old enough for all programs.
OPSET = 17
#: The oldest version in which all operators that are used have their present form.
OLDEST_OPSET = 13
#: What the packages are for, in the message where one is missing.
USE = "ONNX files are made by onnx and compared in onnxruntime"
#: Operators that the parser of SOFIE in ROOT 6.36 takes.
SOFIE_OPERATORS = frozenset(
    "Abs Add AveragePool BatchNormalization Cast Concat Constant ConstantOfShape Conv "
    "ConvTranspose Cos Div Einsum Elu Equal Erf Exp Expand EyeLike Flatten GRU Gather Gemm "
    "GlobalAveragePool Greater GreaterOrEqual Identity If LSTM LayerNormalization LeakyRelu Less "
    "LessOrEqual Log MatMul Max MaxPool Mean Min Mul Neg Pad Pow RNN Range Reciprocal ReduceMean "
    "ReduceProd ReduceSum ReduceSumSquare Relu Reshape ScatterElements Selu Shape Sigmoid Sin "
    "Slice Softmax Split Sqrt Squeeze Sub Sum Tanh Tile TopK Transpose Unsqueeze Where".split()
)


@dataclasses.dataclass(frozen=True, repr=False)
class OnnxFiles(AbstractSummarised):
    """Files that were written.

    Attributes:
        paths: of each question, potential, score or log_ratio.
        worst_errors: largest difference from the estimator, relative to max(1, |value|).
        opset: version of the operators.
        operators: names of the operators in the files.
    """

    paths: dict[str, Path]
    worst_errors: dict[str, float]
    opset: int
    operators: tuple[str, ...]

    @property
    def outside_sofie(self) -> tuple[str, ...]:
        """Operators that SOFIE of ROOT 6.36 does not take."""
        return tuple(name for name in self.operators if name not in SOFIE_OPERATORS)

    def _summarise(self) -> Summary:
        facts = {
            question: f"{path}, off by {self.worst_errors[question]:.1e} at most"
            for question, path in self.paths.items()
        }
        others = ", ".join(self.outside_sofie)
        facts["for ROOT's SOFIE"] = f"operators it lacks: {others}" if others else "yes"
        return Summary(f"ONNX files of opset {self.opset}", (tabulate_facts(facts),))


def onnx(
    estimator: AbstractEstimator,
    path: str | os.PathLike[str],
    *,
    opset: int = OPSET,
    one_graph: bool = False,
) -> OnnxFiles:
    """Write potential, score and log ratio of an estimator as ONNX files.

    Preprocessing, centring and all members are inside; inputs are in the units of the events. The
    answers are compared with the estimator's in onnxruntime, at 1000 events inside the trained
    region and at its edges, before a file is kept: they may differ by 1e-5 of max(1, |value|).

    Inputs are float32 with any number of rows: `x` and `theta`, of the log ratio `x`, `theta0` and
    `theta1`. The output has the name of the question. Names, trained region, hash of the model and
    the question are in the metadata of the file.

    Args:
        estimator: of `ist.fit` or `ist.load`; flows cannot be exported.
        path: such as "model.onnx", from which "model-potential.onnx", "model-score.onnx" and
            "model-log_ratio.onnx" are made, as far as the estimator offers them.
        opset: version of ONNX' operators, 13 or later.
        one_graph: write one file, `path` itself, with all inputs and outputs.

    Returns:
        The paths, and the largest difference in each question.
    """
    questions = questions_of(estimator)
    onnx_package, runtime = import_packages()
    newest = onnx_package.defs.onnx_opset_version()
    opset = as_count(opset, "opset", least=OLDEST_OPSET, most=newest)
    as_flag(one_graph, "one_graph")
    stem = re.sub(r"\.onnx$", "", str(as_path(path, "path")))
    groups = [questions] if one_graph else [(question,) for question in questions]
    files = {
        group: Path(f"{stem}.onnx" if one_graph else f"{stem}-{group[0]}.onnx") for group in groups
    }
    for file in files.values():
        require_file(file)
    points = choose_points(estimator)
    contents, errors, operators = {}, {}, set()
    for group, file in files.items():
        model = _build_model(estimator, group, opset)
        content = model.SerializeToString()
        errors |= _compare(estimator, group, content, points, runtime)
        contents[file] = content
        operators |= {node.op_type for node in model.graph.node}
    for file, content in contents.items():
        write_whole(file, content)
    paths = {question: file for group, file in files.items() for question in group}
    return OnnxFiles(paths, errors, opset, tuple(sorted(operators)))


def import_packages() -> tuple[Any, Any]:
    """Both onnx and onnxruntime, or an error that says how to install them."""
    return import_package("onnx", USE, "export"), import_package("onnxruntime", USE, "export")


def _build_model(estimator: AbstractEstimator, questions: tuple[str, ...], opset: int) -> Any:  # noqa: ANN401
    onnx_package, _ = import_packages()
    helper = onnx_package.helper
    graph = start_graph(estimator, questions)
    outputs = {question: add_question(graph, estimator, question) for question in questions}
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        graph.proto(outputs, "_".join(questions)),
        producer_name="inferostatic",
        opset_imports=opsets,
        ir_version=helper.find_min_ir_version_for(opsets),
    )
    facts = describe_export(estimator) | {"questions": " ".join(questions)}
    helper.set_model_props(model, facts)
    onnx_package.checker.check_model(model, full_check=True)
    return model


def _compare(
    estimator: AbstractEstimator,
    questions: tuple[str, ...],
    content: bytes,
    points: Points,
    runtime: Any,  # noqa: ANN401
) -> dict[str, float]:
    """The largest error of each question in onnxruntime, of many events and of one alone."""
    try:
        session = open_session(content, runtime)
    except Exception as error:  # its own kinds, one for each of its faults
        raise ExportError(f"onnxruntime does not take this file: {error}") from error
    given = points.inputs("log_ratio") | points.inputs("potential")
    rows = {value.name: given[value.name] for value in session.get_inputs()}
    first = {name: some[:1] for name, some in rows.items()}
    errors = {}
    for question in questions:
        values, alone = (np.asarray(session.run([question], some)[0]) for some in (rows, first))
        reference = exact_values(estimator, question, points)
        errors[question] = require_parity(question, values, reference, "the ONNX file")
        require_parity(question, alone, reference[:1], "the ONNX file, of one event alone,")
    return errors


def open_session(content: bytes | str, runtime: Any) -> Any:  # noqa: ANN401
    """A file in onnxruntime, on the CPU and without its remarks."""
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
