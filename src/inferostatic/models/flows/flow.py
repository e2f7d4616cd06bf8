r"""Conditional flows: a normalised density of x given θ, whose logarithm is a potential.

\(p(x;\theta) = p_\mathrm{flow}(u;\theta)\,|du/dx|\) with u the features of x. The Jacobian does not
depend on θ, so ln p_flow by itself is a potential, and everything that takes a potential takes a
flow; the Jacobian is counted where a density is asked for, which is then in the units of x.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...inputs import as_count, as_function, kind_of
from ...packages import import_package
from ...serial import known, picklable
from ...supervision.records import Capability, Event, Key, Number, Theta
from ..architecture import AbstractArchitecture, Shapes, theta_map
from ..features.features import AbstractFeatures, Natural
from ..features.invertible import invertible, log_jacobian
from ..networks.networks import ACTIVATION, MOST_LAYERS, MOST_UNITS, AbstractPairNetwork
from ..potential import PotentialModel


@picklable
@known
class MixtureFlow(eqx.Module):
    """A choice of flow: autoregressive mixtures of Gaussians behind autoregressive affine layers.

    Smooth in θ, so that scores and Hessians are continuous; multimodal; and normalised exactly.

    Args:
        layers: affine layers, each of which reverses the order of the observables.
        components: Gaussians in the conditional density of each observable.
        width: of the hidden layers of every network.
        depth: number of these hidden layers.
        activation: a JAX function of one number; see `ist.MLP`.
    """

    layers: int = eqx.field(static=True, default=1)
    components: int = eqx.field(static=True, default=8)
    width: int = eqx.field(static=True, default=64)
    depth: int = eqx.field(static=True, default=2)
    activation: Callable[..., Any] = eqx.field(static=True, default=jax.nn.silu)

    def __check_init__(self) -> None:
        """Whole numbers."""
        for name in ("components", "width"):
            as_count(getattr(self, name), name, most=MOST_UNITS)
        as_count(self.depth, "depth", most=MOST_LAYERS)
        as_count(self.layers, "layers", least=0, most=MOST_LAYERS)
        as_function(self.activation, "activation", ACTIVATION)

    def __call__(self, x_size: int, theta_size: int, *, key: Key) -> Any:  # noqa: ANN401
        """Build the flow."""
        if self.width < x_size:
            raise ValueError(
                f"width must be at least the number of observables, {x_size}; got {self.width}."
            )
        from .mixture_flow import mixture_flow

        return mixture_flow(x_size, theta_size, key=key, **vars(self))


@dataclasses.dataclass(frozen=True, eq=False)
class Skeleton:
    """Everything of a flow but its arrays; the same for the same choice and sizes.

    Flows hold functions made on the spot, which are never equal; comparing where they came from
    instead lets equal flows share one compilation.
    """

    made_by: tuple[Any, int, int]
    structure: Any
    others: tuple[Any, ...]
    kinds: tuple[str, ...]

    def __eq__(self, other: object) -> bool:
        """By origin."""
        return isinstance(other, Skeleton) and bool(eqx.tree_equal(self.made_by, other.made_by))

    def __hash__(self) -> int:
        """By the sizes, which always have one."""
        return hash(self.made_by[1:])


class FlowNetwork(AbstractPairNetwork):
    """A conditional flow of the features of x, with its weights.

    Attributes:
        weights: the arrays that are trained.
        fixed: arrays that are not, such as masks, permutations and whatever flowjax marks so, as
            integers (of a floating-point number, its bits): training, weight decay and widening
            to float64 concern floating-point arrays only, saving concerns all.
        skeleton: the rest.
        activations: of the networks inside, for whoever takes second derivatives.
    """

    weights: tuple[Array, ...]
    fixed: tuple[Array, ...]
    skeleton: Skeleton = eqx.field(static=True)
    activations: tuple[Callable[..., Any], ...] = eqx.field(static=True)

    @property
    def flow(self) -> Any:  # noqa: ANN401
        """The distribution of flowjax."""
        weights, fixed = iter(self.weights), iter(self.fixed)
        leaves = []
        for other, kind in zip(self.skeleton.others, self.skeleton.kinds, strict=True):
            if kind == "weight":
                leaves.append(next(weights))
            else:
                leaves.append(other if kind == "other" else _from_bits(next(fixed), kind))
        return jax.tree.unflatten(self.skeleton.structure, leaves)

    def embed_x(self, x: Float[Array, " features"]) -> Float[Array, " features"]:
        """The features."""
        return x

    def embed_theta(self, theta: Theta) -> Theta:
        """θ itself."""
        return theta

    def join(self, x_part: Float[Array, " features"], theta_part: Theta) -> Number:
        """ln p of the features."""
        with _implicit_promotion():
            return self.flow.log_prob(x_part, theta_part)

    def sample(self, theta: Theta, *, key: Key) -> Float[Array, " features"]:
        """Features of one event drawn at θ."""
        with _implicit_promotion():
            return self.flow.sample(key, condition=theta)


class DensityModel(PotentialModel):
    """A potential that is the logarithm of a normalised density."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    def log_prob(self, x: Event, theta: Theta) -> Number:
        """Ln p(x; θ) in the units of x, without any centring, which would not be normalised."""
        u = self.x_features(x)
        value = self.network.join(u, self.theta_features(theta))
        return value + log_jacobian(self.x_features, x)

    def sample_features(self, theta: Theta, *, key: Key) -> Float[Array, " features"]:
        """Features of one event drawn at θ."""
        return self.network.sample(self.theta_features(theta), key=key)


@known
class Flow(AbstractArchitecture):
    """A normalised density p(x; θ): a potential that also offers `log_prob` and `sample`.

    It needs flowjax: `pip install 'inferostatic[flows]'`.

    Args:
        network: such as `ist.MixtureFlow(layers=2)`, or a function (x_size, theta_size, *, key)
            that builds a conditional distribution of flowjax; only its arrays may depend on `key`.
        x_features: features made of one observable each: `ist.Natural()`, `ist.Standardised()`,
            `ist.Quantile()` or `ist.Raw()`. Quantiles have a density with steps.
        theta_features: `ist.Standardised()` or `ist.Raw()`.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)
    network: Any = eqx.field(default_factory=MixtureFlow)
    x_features: AbstractFeatures = eqx.field(default_factory=Natural, converter=invertible)

    def build_network(self, shapes: Shapes, *, key: Key) -> FlowNetwork:
        """A flow."""
        return build_flow(self.network, shapes.x_size, shapes.theta_dim, key=key)

    def place_network(self, shapes: Shapes, network: Any) -> DensityModel:  # noqa: ANN401
        """A density."""
        return DensityModel(shapes.x_features, theta_map(shapes), network)


def build_flow(choice: Any, x_size: int, theta_size: int, *, key: Key) -> FlowNetwork:  # noqa: ANN401
    """Build a flow, which a user may have written, and check that it is one."""
    require_flowjax()
    from flowjax.distributions import AbstractDistribution

    remedy = (
        "A flow is built by a function (x_size, theta_size, *, key) that returns a distribution of "
        f"flowjax with shape ({x_size},) and cond_shape ({theta_size},) here, such as "
        "masked_autoregressive_flow(key, base_dist=…, cond_dim=theta_size)."
    )
    if not callable(choice) or isinstance(choice, type):
        raise TypeError(f"the flow is {kind_of(choice)}. {remedy}")
    with _implicit_promotion():
        flow: Any = choice(x_size, theta_size, key=key)
    if not isinstance(flow, AbstractDistribution):
        raise TypeError(f"the flow is {kind_of(flow)}. {remedy}")
    if flow.shape != (x_size,) or flow.cond_shape != (theta_size,):
        raise TypeError(
            f"the flow has shape {flow.shape} and cond_shape {flow.cond_shape}. {remedy}"
        )
    network = _take_apart(flow, (choice, x_size, theta_size))
    if not network.weights:
        raise TypeError(f"the flow has no weights to train. {remedy}")
    return network


def require_flowjax() -> None:
    """Say how to get it."""
    import_package("flowjax", "densities are modelled by flows of flowjax", "flows")


def _take_apart(flow: Any, made_by: tuple[Any, int, int]) -> FlowNetwork:  # noqa: ANN401
    """Weights, fixed arrays, and the rest."""
    from paramax import NonTrainable

    def is_frozen(node: object) -> bool:
        return isinstance(node, NonTrainable)

    frozen = jax.tree.map(
        lambda node: jax.tree.map(lambda _: is_frozen(node), node), flow, is_leaf=is_frozen
    )
    leaves, structure = jax.tree.flatten(flow)
    weights, fixed, others, kinds = [], [], [], []
    for leaf, still in zip(leaves, jax.tree.leaves(frozen), strict=True):
        if not isinstance(leaf, jax.Array | np.ndarray):
            kind = "other"
        elif jnp.issubdtype(leaf.dtype, jnp.floating) and not still:
            kind = "weight"
            weights.append(jnp.asarray(leaf, jnp.float32))
        else:
            kind, bits = _as_bits(leaf)
            fixed.append(bits)
        kinds.append(kind)
        others.append(leaf if kind == "other" else None)
    networks = jax.tree.leaves(flow, is_leaf=lambda node: isinstance(node, eqx.nn.MLP))
    activations = [node.activation for node in networks if isinstance(node, eqx.nn.MLP)]
    skeleton = Skeleton(made_by, structure, tuple(others), tuple(kinds))
    return FlowNetwork(tuple(weights), tuple(fixed), skeleton, tuple(dict.fromkeys(activations)))


def _as_bits(leaf: Any) -> tuple[str, Array]:  # noqa: ANN401
    """An array as integers, and what it was."""
    if leaf.dtype == bool:
        return "bool", jnp.asarray(leaf, jnp.uint8)
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        bits = jax.lax.bitcast_convert_type(jnp.asarray(leaf, jnp.float32), jnp.int32)
        return "float", bits
    return "integer", jnp.asarray(leaf)


def _from_bits(bits: Array, kind: str) -> Array:
    if kind == "bool":
        return bits != 0
    return jax.lax.bitcast_convert_type(bits, jnp.float32) if kind == "float" else bits


@contextlib.contextmanager
def _implicit_promotion() -> Iterator[None]:
    """flowjax relies on implicit promotion, of dtypes and of ranks, wherever it is forbidden."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
