"""A trained estimator as one C++17 header without dependencies.

The fixed part, templates for layers, features and evaluation, stands in `cpp_source/`; what is
written here are types that name them, and tables of numbers. Everything of a model stands in a
namespace of its own, so that one program can include several.
"""

import json
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from ..estimator.estimator import AbstractEstimator
from ..estimator.model_hash import model_hash
from ..files import require_file, write_whole
from ..inputs import as_flag, as_path, as_text
from ..models.features.feature_map import Affine
from ..versions import __version__
from .cpp_check import require_same_values
from .cpp_features import CppMap, write_centring, write_features
from .cpp_layers import CppNetwork, write_potential_network, write_vector_network
from .cpp_text import (
    as_namespace,
    comment_text,
    double_literal,
    float_table,
    is_namespace,
    join_lines,
    member_rows,
    string_literal,
)
from .metadata import list_facts
from .parity import ExportError, questions_of

#: Fixed parts of every header, in their order.
SOURCES = ("arithmetic", "layers", "networks", "features", "centring", "functions")
#: What the fixed parts need of the standard library.
INCLUDES = (
    ("array", "cmath", "cstddef", "cstdint", "cstring")
    + ("limits", "type_traits", "utility")
)  # fmt: skip
#: Events that a batch evaluates side by side; a multiple of the widest vector registers, twice.
LANES = 16
#: Bytes of one array of intermediate values, at most; several of them lie on the stack.
STACK_ARRAY = 1 << 18
#: Numbers of a model, at most: a compiler takes about 5 s and 0.3 GB for every million.
MOST_NUMBERS = 3_000_000
#: Functions that each kind of model offers, by the first of its questions.
FUNCTIONS = {"potential": "Potential", "score": "Score", "log_ratio": "Ratio"}


def cpp(
    estimator: AbstractEstimator,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    check: bool = True,
) -> Path:
    """Write an estimator as one C++17 header: potential, score and log ratio of events.

    Features, members and centring are inside. A program includes the file and calls
    `NAME::Model::score(x, theta)` and so on, for one event or for rows of them. The header is kept
    only if a program that was compiled with it gives the estimator's values, to 1e-5 relative to
    max(1, |value|); without a C++ compiler ($CXX, c++, g++ or clang++) a warning says that this
    could not be tried.

    Args:
        estimator: a trained potential, direct score or direct ratio network.
        path: of the header.
        name: of the C++ namespace; default the name of the file, changed where C++ does not
            take it or C has a function of that name.
        check: whether to compile the header and compare its values.

    Returns:
        The path.
    """
    path = as_path(path)
    check = as_flag(check, "check")
    questions = questions_of(estimator)
    require_file(path)
    namespace = as_namespace(path.stem) if name is None else as_text(name, "name")
    if not is_namespace(namespace):
        raise ValueError(
            f"name must be one that C++ takes, such as {as_namespace(namespace)!r}; got {name!r}."
        )
    text = write_header(estimator, namespace)
    if check:
        require_same_values(estimator, questions, {namespace: text})
    return write_whole(path, text.encode())


def write_header(est: AbstractEstimator, name: str) -> str:
    """The text of a header whose namespace has this name."""
    questions = questions_of(est)
    features = write_features(est.model.x_features, len(est.x_names))
    centring = write_centring(getattr(est.model, "centring", None))
    potential = "potential" in questions
    network = (
        write_potential_network(est.model.network, len(est.theta_names))
        if potential
        else write_vector_network(est.model.network)
    )
    if network.weights.size > MOST_NUMBERS:
        raise ExportError(
            f"this model has {network.weights.size:,} weights, and a C++ header holds at most "
            f"{MOST_NUMBERS:,}. Export it by ist.export.onnx."
        )
    digest = model_hash(est)
    guard = f"INFEROSTATIC_{name.upper()}_{digest[:16].upper()}"
    parts = [
        _write_comment(est, name, questions, digest),
        f"#ifndef {guard}\n#define {guard}",
        "\n".join(f"#include <{include}>" for include in INCLUDES),
        f"namespace {name} {{",
        *(_read_source(source) for source in SOURCES),
        "// ---- The numbers of this model. ----",
        *features.tables,
        *centring.tables,
        _write_parts(est, features, centring, network),
        _write_model(est, FUNCTIONS[questions[0]], digest),
        f"#undef INFEROSTATIC_RESTRICT\n\n}}  // namespace {name}",
        f"#endif  // {guard}",
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _write_parts(
    est: AbstractEstimator, features: CppMap, centring: CppMap, network: CppNetwork
) -> str:
    """Types and tables of the model, which the fixed functions are made with."""
    x_dim, theta_dim = len(est.x_names), len(est.theta_names)
    members, size = network.weights.shape
    theta = est.model.theta_features
    affine = isinstance(theta, Affine)
    widest = max(network.widest, x_dim, features.outputs)
    lanes = LANES if widest * LANES * (1 + theta_dim) * 4 <= STACK_ARRAY else 1
    sizes = f"x_dim = {x_dim}, theta_dim = {theta_dim}, members = {members}, lanes = {lanes}"
    centre = theta.centre if affine else np.zeros(theta_dim)
    scale = theta.scale if affine else np.ones(theta_dim)
    return "\n".join(
        [
            "struct Parts {",
            f"  using XFeatures = {features.type};",
            f"  using Network = {network.type};",
            f"  using Centring = {centring.type};",
            f"  static constexpr int {sizes};",
            float_table("theta_centre", np.asarray(centre)),
            float_table("theta_scale", np.asarray(scale)),
            f'  static_assert(Network::size == {size}, "as many weights as the network has");',
            f"  alignas(64) static constexpr float weights[{members}][{size}] = {{",
            member_rows(list(network.weights)) + "};",
            "};",
        ]
    )


def _write_model(est: AbstractEstimator, functions: str, digest: str) -> str:
    region = est.region
    x_dim, theta_dim = len(est.x_names), len(est.theta_names)
    facts = json.dumps(list_facts(est))
    return "\n".join(
        [
            f"struct Model : {functions}Functions<Parts> {{",
            _write_names("x_names", est.x_names),
            _write_names("theta_names", est.theta_names),
            "  // Where the model was trained; elsewhere it extrapolates.",
            *(
                _write_edges(name, getattr(region, name))
                for name in ("x_low", "x_high", "theta_low", "theta_high")
            ),
            f"  static constexpr const char* model_hash =\n      {string_literal(digest)};",
            "  // All of the above, and more, as JSON.",
            "  static constexpr const char* metadata =",
            _split_string(facts) + ";",
            "",
            "  template <class X>",
            "  static bool contains_x(const X* x) noexcept {",
            f"    return lies_within<{x_dim}>(x, x_low, x_high);",
            "  }",
            "  template <class T>",
            "  static bool contains_theta(const T* theta) noexcept {",
            f"    return lies_within<{theta_dim}>(theta, theta_low, theta_high);",
            "  }",
            "  template <class X, class T>",
            "  static bool contains(const X* x, const T* theta) noexcept {",
            "    return contains_x(x) && contains_theta(theta);",
            "  }",
            "};",
        ]
    )


def _write_names(name: str, values: Sequence[str]) -> str:
    texts = join_lines(string_literal(value) for value in values)
    return f"  static constexpr std::array<const char*, {len(values)}> {name} = {{{{\n{texts}}}}};"


def _write_edges(name: str, edges: np.ndarray) -> str:
    numbers = join_lines(double_literal(edge) for edge in edges)
    return f"  static constexpr std::array<double, {len(edges)}> {name} = {{{{\n{numbers}}}}};"


def _split_string(text: str, length: int = 60) -> str:
    """One string in several lines."""
    pieces = [text[at : at + length] for at in range(0, len(text), length)]
    return "\n".join(f"      {string_literal(piece)}" for piece in pieces)


def _read_source(name: str) -> str:
    source = resources.files("inferostatic.export") / "cpp_source" / f"{name}.h"
    return source.read_text(encoding="utf-8")


def _write_comment(est: AbstractEstimator, name: str, questions: Sequence[str], digest: str) -> str:
    calls = {
        "potential": "float potential(x, theta)",
        "score": f"std::array<float, {len(est.theta_names)}> score(x, theta)",
        "log_ratio": "float log_ratio(x, theta0, theta1)",
    }
    rows = {
        "potential": "potential(x, theta, n, out)",
        "score": "score(x, theta, n, out)",
        "log_ratio": "log_ratio(x, theta0, theta1, n, out)",
    }
    x, theta = (", ".join(names) for names in (est.x_names, est.theta_names))
    lines = [
        f"{name}: {', '.join(questions)} of an event, learned from simulation.",
        "",
        f"x     = {x}",
        f"theta = {theta}",
        "",
        f"One event, with x and theta pointers to float or double, all of {name}::Model:",
        *(f"  {calls[question]}" for question in questions),
        "n events, in rows; a last argument of 0 takes one theta for all of them:",
        *(f"  void {rows[question]}" for question in questions),
        "Whether x and theta lie where the model was trained:",
        "  bool contains(x, theta)",
        "Nothing is allocated, nothing is shared and nothing throws: threads need no locks.",
        "",
        f"Model {digest},",
        f"{est.members} members, made by ist.export.cpp of inferostatic {__version__}.",
        "Compile with -O2 or more; -O3 -march=native is several times faster. The values were",
        "compared for compilations without -ffast-math.",
        "",
        "The numbers of the model belong to whoever trained it. The code is part of inferostatic:",
        "SPDX-License-Identifier: MIT",
        *_read_licence(),
    ]
    return "\n".join(f"// {comment_text(line)}".rstrip() for line in lines)


def _read_licence() -> list[str]:
    source = resources.files("inferostatic.export") / "cpp_source" / "LICENSE"
    return source.read_text(encoding="utf-8").splitlines()
