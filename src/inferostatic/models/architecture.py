"""Architectures: which quantity a network models, on which features, before data are seen.

`Potential` (the InferoStatic Network) offers potential, score and log ratio; `DirectScore` only the
score; `DirectRatio` only the log ratio. The paper's three networks are presets at the end.
"""

import abc
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..inputs import as_function, kind_of
from ..serial import Absent, known
from ..supervision.records import Capability, Key, Number, Theta
from .direct import RatioModel, ScoreModel
from .features.feature_map import AbstractFeatureMap, IdentityMap, affine, safe_scale
from .features.features import AbstractFeatures, Automatic, Raw, Standardised
from .networks.networks import MLP, NETWORK, AbstractPairNetwork, GlorotUniform, Residual
from .potential import WITHOUT_DENSITY, AbstractModel, PotentialModel

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


@known
class Shapes(eqx.Module):
    """What an architecture must know of the data."""

    x_features: AbstractFeatureMap
    x_dim: int = eqx.field(static=True)
    theta_centre: np.ndarray
    theta_scale: np.ndarray

    @property
    def theta_dim(self) -> int:
        """Number of parameters."""
        return len(self.theta_centre)

    @property
    def x_size(self) -> int:
        """Number of features of x, which need not be the number of its columns."""
        column = jax.ShapeDtypeStruct((self.x_dim,), jnp.float32)
        return eqx.filter_eval_shape(self.x_features, column).shape[0]


class AbstractArchitecture(eqx.Module):
    """A model waiting for data."""

    network: Any
    x_features: AbstractFeatures = eqx.field(default_factory=Automatic)
    theta_features: AbstractFeatures = eqx.field(default_factory=Standardised)
    #: What the model can be asked for.
    capabilities: AbstractClassVar[frozenset[Capability]]

    def __check_init__(self) -> None:
        """A network that can be built, and features that can be learned."""
        as_function(self.network, "network", NETWORK)
        for name in ("x_features", "theta_features"):
            value = getattr(self, name)
            if not isinstance(value, AbstractFeatures | Absent):
                raise TypeError(f"{name} must be such as ist.Standardised(); got {kind_of(value)}.")

    @abc.abstractmethod
    def build_network(self, shapes: Shapes, *, key: Key) -> Any:  # noqa: ANN401
        """A network with fresh weights."""

    @abc.abstractmethod
    def place_network(self, shapes: Shapes, network: Any) -> AbstractModel:  # noqa: ANN401
        """The model around a network."""

    def build(self, shapes: Shapes, *, key: Key) -> Any:  # noqa: ANN401
        """An untrained model."""
        return self.place_network(shapes, self.build_network(shapes, key=key))

    def shapes(self, x: np.ndarray, theta_centre: np.ndarray, theta_scale: np.ndarray) -> Shapes:
        """Learn the features of x; θ is standardised by the prior unless raw."""
        if not isinstance(self.theta_features, Raw | Standardised):
            raise TypeError("theta_features must be ist.Standardised() or ist.Raw().")
        if isinstance(self.theta_features, Raw):
            theta_centre, theta_scale = np.zeros_like(theta_centre), np.ones_like(theta_scale)
        return Shapes(
            x_features=self.x_features.learn(x),
            x_dim=x.shape[1],
            theta_centre=np.asarray(theta_centre, np.float32),
            theta_scale=safe_scale(theta_centre, theta_scale).astype(np.float32),
        )


@known
class Potential(AbstractArchitecture):
    """The InferoStatic Network: φ(x, θ) with one output.

    Args:
        network: such as `ist.Residual()`, `ist.TwoTower()` or `ist.ParticleSet(…)`; a function
            (in_size, out_size, *, key) that builds an Equinox module of one vector; or a function
            (x_size, theta_size, *, key) that builds one with the methods `embed_x`, `embed_theta`
            and `join`.
        x_features: of the observables. A network with an attribute `x_features`, such as
            `ist.ParticleSet(…)`, brings its own.
        theta_features: `ist.Standardised()` or `ist.Raw()`.
    """

    capabilities: ClassVar[frozenset[Capability]] = WITHOUT_DENSITY
    network: Any = eqx.field(default_factory=Residual)

    def __post_init__(self) -> None:
        """Take the features that the network brings."""
        own = getattr(self.network, "x_features", None)
        if not isinstance(own, AbstractFeatures) or self.x_features == own:
            return
        if self.x_features != Automatic():
            raise TypeError(
                f"{type(self.network).__name__} brings its own features, {own}; leave x_features "
                f"out. Got x_features={self.x_features}."
            )
        self.x_features = own

    def build_network(self, shapes: Shapes, *, key: Key) -> Any:  # noqa: ANN401
        """A network of x and θ apart, or of one vector."""
        return build_scalar(self.network, shapes.x_size, shapes.theta_dim, key=key)

    def place_network(self, shapes: Shapes, network: Any) -> PotentialModel:  # noqa: ANN401
        """A potential."""
        return PotentialModel(shapes.x_features, theta_map(shapes), network)


@known
class DirectScore(AbstractArchitecture):
    """The score as the network's output, one for each parameter."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.SCORE})
    network: Any = eqx.field(default_factory=lambda: Residual(output_bias=True))

    def build_network(self, shapes: Shapes, *, key: Key) -> Any:  # noqa: ANN401
        """A network with as many outputs as parameters."""
        in_size = shapes.x_size + shapes.theta_dim
        return build_vector(self.network, in_size, shapes.theta_dim, key=key)

    def place_network(self, shapes: Shapes, network: Any) -> ScoreModel:  # noqa: ANN401
        """A score."""
        scale = jnp.asarray(shapes.theta_scale)
        return ScoreModel(shapes.x_features, theta_map(shapes), network, scale)


@known
class DirectRatio(AbstractArchitecture):
    """The log ratio as the difference of two outputs, given x, θ0 and θ1."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.LOG_RATIO})
    network: Any = eqx.field(default_factory=lambda: Residual(output_bias=True))

    def build_network(self, shapes: Shapes, *, key: Key) -> Any:  # noqa: ANN401
        """A network with two outputs."""
        return build_vector(self.network, shapes.x_size + 2 * shapes.theta_dim, 2, key=key)

    def place_network(self, shapes: Shapes, network: Any) -> RatioModel:  # noqa: ANN401
        """A log ratio."""
        return RatioModel(shapes.x_features, theta_map(shapes), network)


@runtime_checkable
class PairChoice(Protocol):
    """Builds a network that takes x and θ apart; recognised by the names of its parameters."""

    def __call__(self, x_size: int, theta_size: int, *, key: Key) -> Any:  # noqa: ANN401
        """A module with the methods `embed_x`, `embed_theta` and `join`."""
        ...


class OtherPairNetwork(AbstractPairNetwork):
    """A user's module with the three methods of a pair network."""

    module: Any

    def embed_x(self, x: Float[Array, " features"]) -> Any:  # noqa: ANN401
        """What the module needs of one event."""
        return self.module.embed_x(x)

    def embed_theta(self, theta: Theta) -> Any:  # noqa: ANN401
        """What the module needs of one θ."""
        return self.module.embed_theta(theta)

    def join(self, x_part: Any, theta_part: Any) -> Number:  # noqa: ANN401
        """The module's potential."""
        return self.module.join(x_part, theta_part)


#: What a user's own code raises when it is built or traced with the wrong shapes.
_MISTAKES = (TypeError, ValueError, RuntimeError, IndexError, AttributeError)


def takes_pairs(choice: Any) -> bool:  # noqa: ANN401
    """Whether a choice asks for the sizes of x and θ, rather than of one vector."""
    try:
        names = set(inspect.signature(choice).parameters)
    except (TypeError, ValueError):
        return False
    return {"x_size", "theta_size"} <= names


def build_vector(choice: Any, in_size: int, out_size: int, *, key: Key) -> Any:  # noqa: ANN401
    """Build a network of one vector, which a user may have written, and check that it is one."""
    if takes_pairs(choice):
        name = getattr(choice, "__name__", type(choice).__name__)
        raise TypeError(
            f"{name} takes x and θ apart and gives one number, a potential: use it as "
            "ist.Potential(…). What is needed here is a network of one vector, such as "
            "ist.MLP((64, 64)) or ist.Residual()."
        )
    remedy = (
        "A network is built by a function (in_size, out_size, *, key) that returns an Equinox "
        f"module with weights, which maps a vector of {in_size} to one of {out_size} here."
    )
    network = _build(choice, in_size, out_size, remedy, key=key)
    if isinstance(network, AbstractPairNetwork):
        raise TypeError(
            "the network takes x and θ apart. Name the parameters of the function that builds it "
            "(x_size, theta_size, *, key)."
        )
    _check_output(network, (in_size,), "the network", lambda own, a: own(a), (out_size,), remedy)
    return network


def build_scalar(choice: Any, x_size: int, theta_size: int, *, key: Key) -> Any:  # noqa: ANN401
    """Build a network of x and θ with one output, of either kind."""
    if takes_pairs(choice):
        return build_pair(choice, x_size, theta_size, key=key)
    return build_vector(choice, x_size + theta_size, 1, key=key)


def build_pair(choice: Any, x_size: int, theta_size: int, *, key: Key) -> AbstractPairNetwork:  # noqa: ANN401
    """Build a network that takes x and θ apart, and check that it is one."""
    remedy = (
        "A network that takes x and θ apart is built by a function (x_size, theta_size, *, key) "
        "that returns an Equinox module with weights and the methods embed_x(x), "
        "embed_theta(theta) and join(x_part, theta_part), which gives one number of shape (); "
        f"here x_size is {x_size} and theta_size {theta_size}."
    )
    network = _build(choice, x_size, theta_size, remedy, key=key)
    methods = ("embed_x", "embed_theta", "join")
    missing = [name for name in methods if not callable(getattr(network, name, None))]
    if missing:
        raise TypeError(f"the network has no method {missing[0]}. {remedy}")

    def join(pair: Any, x: Array, theta: Array) -> Array:  # noqa: ANN401
        return pair.join(pair.embed_x(x), pair.embed_theta(theta))

    _check_output(network, (x_size, theta_size), "join", join, (), remedy)
    return network if isinstance(network, AbstractPairNetwork) else OtherPairNetwork(network)


def _build(choice: Any, first: int, second: int, remedy: str, *, key: Key) -> Any:  # noqa: ANN401
    try:
        return choice(first, second, key=key)
    except _MISTAKES as error:
        # Choices of this package check their own arguments, with their own messages.
        if type(choice).__module__.partition(".")[0] == __name__.partition(".")[0]:
            raise
        raise _explain(error, remedy) from error


def _check_output(
    network: Any,  # noqa: ANN401
    sizes: tuple[int, ...],
    what: str,
    apply: Callable[..., Array],
    shape: tuple[int, ...],
    remedy: str,
) -> None:
    """Refuse a network whose output has another shape, or that has nothing to train."""
    try:
        vectors = [jax.ShapeDtypeStruct((size,), jnp.float32) for size in sizes]
        output = eqx.filter_eval_shape(apply, network, *vectors)
    except _MISTAKES as error:
        raise _explain(error, remedy) from error
    found = getattr(output, "shape", None)
    if found != shape:
        raise TypeError(f"{what} gives an output of shape {found}. {remedy}")
    if not jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)):
        raise TypeError(f"the network has no weights to train. {remedy}")


def _explain(error: Exception, remedy: str) -> TypeError:
    said = str(error).rstrip(".")
    return TypeError(f"the network could not be built or applied: {said}. {remedy}")


def theta_map(shapes: Shapes) -> AbstractFeatureMap:
    """Standardised θ, or θ itself where that was asked for."""
    centre, scale = np.asarray(shapes.theta_centre), np.asarray(shapes.theta_scale)
    raw = (centre == 0).all() and (scale == 1).all()
    return IdentityMap() if raw else affine(centre, scale)


def _paper_mlp(*, output_bias: bool) -> MLP:
    return MLP((8, 16, 8), activation=jax.nn.selu, initial=GlorotUniform(), output_bias=output_bias)


#: The paper's ISN: hidden 8-16-8, SELU, raw inputs, no output bias; 344 parameters for 3 + 3.
paper_network: Potential = Potential(_paper_mlp(output_bias=False), Raw(), Raw())
#: The paper's direct score network: 363 parameters.
paper_score_network: DirectScore = DirectScore(_paper_mlp(output_bias=True), Raw(), Raw())
#: The paper's direct likelihood ratio network: 378 parameters.
paper_ratio_network: DirectRatio = DirectRatio(_paper_mlp(output_bias=True), Raw(), Raw())
