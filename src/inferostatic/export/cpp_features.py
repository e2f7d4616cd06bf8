"""Features of x, and centring, as types of C++ with their tables."""

import dataclasses

import numpy as np

from ..models.features.coordinates import NaturalMap
from ..models.features.feature_map import AbstractFeatureMap, Affine, Chained, IdentityMap
from ..models.features.features import QuantileMap
from ..models.features.per_particle import PerParticleMap
from ..models.theta_potential import MARGIN, ThetaPotential
from .cpp_layers import ALTERNATIVE
from .cpp_text import float_literal, float_table, join_lines
from .parity import ExportError

#: Fields of maps that go by another name in C++, where `start` is a function.
RENAMED = {"start": "begin"}


@dataclasses.dataclass(frozen=True)
class CppMap:
    """A map for a header: its type, the structs with its numbers, and how many values it gives."""

    type: str
    tables: tuple[str, ...]
    outputs: int


def write_features(features: AbstractFeatureMap, dim: int, name: str = "X") -> CppMap:
    """The map of `dim` columns; `name` begins the names of its tables."""
    table = f"{name}Table"
    if isinstance(features, IdentityMap):
        return CppMap(f"Identity<{dim}>", (), dim)
    if isinstance(features, Affine):
        return CppMap(f"Affine<{table}>", (_write_table(table, features, dim),), dim)
    if isinstance(features, NaturalMap):
        return CppMap(f"Natural<{table}>", (_write_table(table, features, dim),), dim)
    if isinstance(features, QuantileMap):
        segments = np.shape(features.slope)[1]
        text = _write_table(table, features, dim, f"segments = {segments}")
        return CppMap(f"Quantile<{table}>", (text,), dim)
    if isinstance(features, Chained):
        first = write_features(features.first, dim, f"{name}First")
        second = write_features(features.second, first.outputs, f"{name}Second")
        tables = first.tables + second.tables
        return CppMap(f"Chained<{first.type}, {second.type}>", tables, second.outputs)
    if isinstance(features, PerParticleMap):
        return _write_particles(features, dim, name)
    raise ExportError(
        "the C++ header knows the features ist.Raw, ist.Standardised, ist.Natural, ist.Quantile "
        f"and ist.PerParticle; this model has {type(features).__name__}. {ALTERNATIVE}"
    )


def write_centring(centring: ThetaPotential | None) -> CppMap:
    """What is subtracted from a potential; nothing is a type too."""
    if centring is None:
        return CppMap("NotCentred", (), 0)
    degrees = np.asarray(centring.degrees)
    terms, dim = degrees.shape
    members = [
        f"  static constexpr int dim = {dim}, terms = {terms}, degree = {degrees.max()};",
        f"  static constexpr float margin = {float_literal(MARGIN)};",
        *(float_table(field, getattr(centring, field)) for field in ("low", "high")),
        f"  static constexpr int degrees[{degrees.size}] = {{",
        join_lines(str(degree) for degree in degrees.ravel()) + "};",
        float_table("coefficients", np.asarray(centring.coefficients)),
    ]
    return CppMap("Centred<CentringTable>", (_wrap("CentringTable", members),), 0)


def _write_particles(features: PerParticleMap, dim: int, name: str) -> CppMap:
    layout = features.layout
    each = write_features(features.each, layout.width, f"{name}Particle")
    event = write_features(features.event, dim - layout.columns + 1, f"{name}Event")
    mask = -1 if layout.mask is None else layout.mask
    sizes = f"particles = {layout.particles}, features = {layout.features}, mask = {mask}"
    numbers = {"presence": float(features.presence), "padding": layout.padding}
    written = ", ".join(f"{key} = {float_literal(value)}" for key, value in numbers.items())
    members = [f"  static constexpr int {sizes};", f"  static constexpr float {written};"]
    tables = (*each.tables, *event.tables, _wrap(f"{name}Slots", members))
    outputs = layout.particles * (each.outputs + 1) + event.outputs
    return CppMap(f"PerParticle<{name}Slots, {each.type}, {event.type}>", tables, outputs)


def _write_table(
    table: str, features: Affine | NaturalMap | QuantileMap, dim: int, more: str = ""
) -> str:
    sizes = f"  static constexpr int dim = {dim}{', ' if more else ''}{more};"
    fields = (field.name for field in dataclasses.fields(features))
    arrays = [float_table(RENAMED.get(field, field), getattr(features, field)) for field in fields]
    return _wrap(table, [sizes, *arrays])


def _wrap(name: str, members: list[str]) -> str:
    return "\n".join([f"struct {name} {{", *members, "};"])
