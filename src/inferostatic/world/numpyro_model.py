"""Models written in NumPyro as simulators that know their latent variables.

A probabilistic program says how every unseen number is drawn, so it is a simulator whose joint
density of x and z comes for free, at any θ and differentiable. `from_numpyro` names which of its
numbers are the parameters and which are observed; all others are latent. Each has fixed columns:
in θ and x in the order named, in z in the order of the program, arrays flattened row by row.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..inputs import kind_of
from ..packages import import_package
from ..streams import Purpose, Stream

#: Names of parameters, sites or columns.
Names = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Site:
    """A named number or array of a model."""

    name: str
    shape: tuple[int, ...]
    dtype: Any

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def column_names(self) -> Names:
        """`y`, or `y[0]`, `y[1]` and so on."""
        indices = [",".join(map(str, index)) for index in np.ndindex(*self.shape)]
        return tuple(f"{self.name}[{index}]" if index else self.name for index in indices)


#: What NumPyro recorded of a site, and its shape and type.
Found = tuple[dict[str, Any], Site]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NumpyroSimulator:
    """A simulator with latent variables, made by `ist.from_numpyro`.

    Attributes:
        model: the NumPyro model, with all arguments but the parameters.
        arguments: parameters that are arguments of the model.
        drawn: parameters that are sites of the model, whose own prior is left out.
        order: names of the parameters, as their columns are ordered.
        observed: sites that make up x.
        latent: all other random sites, which make up z.
    """

    model: Callable[..., Any]
    arguments: tuple[Site, ...]
    drawn: tuple[Site, ...]
    order: Names
    observed: tuple[Site, ...]
    latent: tuple[Site, ...]

    @property
    def parameters(self) -> tuple[Site, ...]:
        """The parameters in the order of the columns of θ."""
        by_name = {site.name: site for site in (*self.arguments, *self.drawn)}
        return tuple(by_name[name] for name in self.order)

    @property
    def theta_names(self) -> Names:
        """Names of the d columns of θ."""
        return _columns(self.parameters)

    @property
    def x_names(self) -> Names:
        """Names of the D columns of x."""
        return _columns(self.observed)

    @property
    def z_names(self) -> Names:
        """Names of the k columns of z."""
        return _columns(self.latent)

    def simulate_latent(
        self, theta: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Events x, shape (n, D), and their latent variables z, shape (n, k), at θ, (n, d)."""
        theta = np.asarray(theta)
        if theta.ndim != 2 or theta.shape[1] != len(self.theta_names):
            raise ValueError(
                f"theta must have shape (n, {len(self.theta_names)}) with the columns "
                f"{', '.join(self.theta_names)}; got shape {theta.shape}."
            )
        keys = jax.random.split(jax.random.key(int(rng.integers(2**32))), len(theta))
        x, z = self._many(jnp.asarray(theta, jnp.float32), keys)
        return np.asarray(x), np.asarray(z)

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Events x alone, shape (n, D)."""
        return self.simulate_latent(theta, rng)[0]

    def joint_log_prob(
        self, x: Float[Array, " x_dim"], z: Float[Array, " z_dim"], theta: Float[Array, " d"]
    ) -> Float[Array, ""]:
        """ln p(x, z; θ) of one event in JAX, without the prior of the parameters."""
        values = _unflatten(self.observed, x) | _unflatten(self.latent, z)
        return jnp.asarray(_numpyro("infer.util").log_density(self._at(theta), (), {}, values)[0])

    def _at(self, theta: Float[Array, " d"]) -> Callable[[], Any]:
        """The model at θ, in which its parameters are no longer random."""
        handlers, values = _numpyro("handlers"), _unflatten(self.parameters, theta)
        given = {site.name: values[site.name] for site in self.arguments}
        names = [site.name for site in self.drawn]
        fixed = handlers.substitute(
            partial(self.model, **given), data={name: values[name] for name in names}
        )
        # Hidden rather than subtracted, for a prior that vanishes at θ has an infinite logarithm.
        return handlers.block(fixed, hide=names)

    @cached_property
    def _many(self) -> Callable[[Array, Array], tuple[Array, Array]]:
        return jax.jit(jax.vmap(self._one))

    def _one(self, theta: Float[Array, " d"], key: PRNGKeyArray) -> tuple[Array, Array]:
        handlers = _numpyro("handlers")
        sites = handlers.trace(handlers.seed(self._at(theta), key)).get_trace()
        return _flatten(self.observed, sites), _flatten(self.latent, sites)

    def __repr__(self) -> str:
        """Its columns."""
        parts = ("theta", self.theta_names), ("x", self.x_names), ("z", self.z_names)
        shown = "; ".join(f"{name}: {', '.join(columns) or 'none'}" for name, columns in parts)
        return f"NumpyroSimulator({shown})"


def from_numpyro(
    model: Callable[..., Any],
    *,
    parameters: Sequence[str],
    observed: Sequence[str],
    arguments: Mapping[str, Any] | None = None,
) -> NumpyroSimulator:
    """A NumPyro model as a simulator with latent variables, for `ist.simulate`.

    Args:
        model: a function with `numpyro.sample` sites, without data: what would be observed is
            drawn as well. The support of its sites must not depend on the parameters.
        parameters: names of the parameters θ, each a site (whose own prior is left out) or an
            argument of the model, which is one number.
        observed: names of the sites that make up x; all other sites are latent.
        arguments: values of the model's other arguments, such as `{"groups": 3}`.

    Example:
        A group's mean is drawn around θ, and two measurements around it.

            def model(centre):
                mean = numpyro.sample("mean", dist.Normal(centre, 1.0))
                with numpyro.plate("measurements", 2):
                    numpyro.sample("y", dist.Normal(mean, 0.5))

            simulator = ist.from_numpyro(model, parameters=["centre"], observed=["y"])
            prior = ist.Uniform([-2], [2], names=["centre"])
            events = ist.simulate(simulator, prior, 10_000, seed=1)
    """
    if not callable(model) or isinstance(model, type):
        raise TypeError(f"model must be a NumPyro model, a function; got {kind_of(model)}.")
    parameters, observed = _names(parameters, "parameters"), _names(observed, "observed")
    twice = [name for name in parameters if name in observed]
    if twice:
        raise ValueError(f"{twice[0]!r} is named both as a parameter and as observed.")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise TypeError(
            "arguments must be a dictionary of values by the names of the model's arguments; got "
            f"{kind_of(arguments)}."
        )
    fixed = dict(arguments or {})
    taken = _find_arguments(model, parameters, fixed)
    bound = partial(model, **fixed)
    sites, drawn = _probe(bound, taken, parameters, observed)
    by_name = {site.name: site for site in sites}
    simulator = NumpyroSimulator(
        model=bound,
        arguments=tuple(Site(name, (), jnp.float32) for name in taken),
        drawn=drawn,
        order=parameters,
        observed=tuple(by_name[name] for name in observed),
        latent=tuple(site for site in sites if site.name not in observed),
    )
    _check_density(simulator)
    return simulator


def _numpyro(module: str) -> Any:  # noqa: ANN401
    return import_package(f"numpyro.{module}", "from_numpyro uses NumPyro", "numpyro")


def _names(names: Sequence[str], what: str) -> Names:
    found = (names,) if isinstance(names, str) else names
    found = tuple(found) if isinstance(found, list | tuple) else ()
    if not found or not all(isinstance(name, str) for name in found):
        raise TypeError(f"{what} must be a list of names, such as ['mu', 'sigma']; got {names!r}.")
    if len(set(found)) < len(found):
        raise ValueError(f"the names in {what} must differ from each other; got {list(found)}.")
    return found


def _find_arguments(model: Callable[..., Any], parameters: Names, fixed: dict[str, Any]) -> Names:
    """Those parameters that are arguments, once every argument is accounted for."""
    strange = [name for name in fixed if not isinstance(name, str)]
    if strange:
        raise TypeError(f"arguments are given by their names, and {strange[0]!r} is none.")
    signature = inspect.signature(model).parameters
    taken = tuple(name for name in parameters if name in signature)
    for name in fixed:
        if name in taken:
            raise ValueError(f"the argument {name!r} is a parameter and has no fixed value.")
    single = [a for a in signature.values() if a.kind not in (a.VAR_POSITIONAL, a.VAR_KEYWORD)]
    for argument in single:
        if argument.kind is argument.POSITIONAL_ONLY:
            raise ValueError(
                f"the argument {argument.name!r} of the model cannot be given by its name; wrap "
                "the model in a function whose arguments can."
            )
        if argument.default is argument.empty and argument.name not in (*taken, *fixed):
            raise ValueError(
                f"the model needs the argument {argument.name!r}; name it in parameters or give "
                f"its value, arguments={{{argument.name!r}: …}}."
            )
    return taken


def _probe(
    model: Callable[..., Any], taken: Names, parameters: Names, observed: Names
) -> tuple[tuple[Site, ...], tuple[Site, ...]]:
    """Run the model once without numbers: its random sites, and parameters among its sites."""
    handlers = _numpyro("handlers")
    found: dict[str, Found] = {}
    chosen = [name for name in parameters if name not in taken]

    def zeros(message: dict[str, Any]) -> Array | None:
        # The prior of a parameter is never drawn from: it may be improper.
        is_parameter = message["type"] == "sample" and message["name"] in chosen
        return jnp.zeros(message["fn"].shape()) if is_parameter else None

    def run(values: dict[str, Array]) -> None:
        at_zero = handlers.substitute(partial(model, **values), substitute_fn=zeros)
        seeded = handlers.seed(at_zero, Stream(0, Purpose.TRY_MODEL).key())
        for name, site in handlers.trace(seeded).get_trace().items():
            if site["type"] in ("sample", "param", "deterministic"):
                value = jnp.asarray(site["value"])
                found[name] = (site, Site(name, value.shape, value.dtype))

    number = jax.ShapeDtypeStruct((), jnp.float32)
    try:
        jax.eval_shape(run, dict.fromkeys(taken, number))
    except (TypeError, jax.errors.JAXTypeError) as error:
        raise TypeError(
            "the model must be JAX-traceable, with parameters whose values are not known when it "
            "is compiled: no Python branches on random numbers or parameters, and no shapes that "
            f"depend on them. {type(error).__name__}: {error}"
        ) from error
    random = [name for name, (site, _) in found.items() if site["type"] == "sample"]
    for name in chosen:
        _check_parameter(name, found.get(name), random)
    for name in observed:
        _check_observed(name, found.get(name), random)
    for name in random:
        if name not in chosen:
            _check_random(found[name][0], is_argument=name in taken)
    sites = tuple(found[name][1] for name in random if name not in chosen)
    return sites, tuple(found[name][1] for name in chosen)


def _check_parameter(name: str, found: Found | None, random: list[str]) -> None:
    if found is None or found[0]["type"] not in ("sample", "param"):
        raise ValueError(
            f"the parameter {name!r} is neither an argument nor a random site of the model, whose "
            f"sites are {random}."
        )
    if found[0].get("is_observed"):
        raise ValueError(f"the parameter {name!r} has a value in the model, obs=…; leave it free.")
    if not jnp.issubdtype(found[1].dtype, jnp.floating) or (
        found[0]["type"] == "sample" and found[0]["fn"].is_discrete
    ):
        raise ValueError(
            f"the parameter {name!r} is discrete; scores are derivatives, so parameters must be "
            "continuous."
        )


def _check_observed(name: str, found: Found | None, random: list[str]) -> None:
    if found is not None and found[0]["type"] == "deterministic":
        raise ValueError(
            f"{name!r} is computed, numpyro.deterministic, and has no density given the latent "
            "variables. Name random sites as observed, and compute from x afterwards."
        )
    if found is None or found[0]["type"] != "sample":
        raise ValueError(
            f"the model has no random site {name!r} to be observed; its sites are {random}."
        )


def _check_random(site: dict[str, Any], *, is_argument: bool) -> None:
    """Refuse sites whose density is not that of the numbers that are drawn."""
    distributions, name = _numpyro("distributions"), site["name"]
    if is_argument:
        raise ValueError(
            f"{name!r} is both an argument and a random site of the model; rename one of them, or "
            "leave out the argument."
        )
    if site["is_observed"]:
        raise ValueError(
            f"the site {name!r} has data, obs=…, or is a numpyro.factor: it would be conditioned "
            "on, not simulated. Pass None for data; a factor has no simulation."
        )
    if site["scale"] is not None:
        raise ValueError(
            f"the density of the site {name!r} is scaled (a sub-sampled plate or handlers.scale), "
            "so it is not that of the numbers drawn. Use the whole plate."
        )
    distribution = site["fn"]
    while isinstance(distribution, distributions.ExpandedDistribution | distributions.Independent):
        distribution = distribution.base_dist
    if isinstance(distribution, distributions.MaskedDistribution):
        raise ValueError(
            f"the site {name!r} is masked: its density leaves out numbers that are drawn. Make the "
            "site only as large as what is kept."
        )
    if isinstance(distribution, distributions.Delta):
        raise ValueError(
            f"the site {name!r} is a Delta, which has no density; use numpyro.deterministic."
        )


def _check_density(simulator: NumpyroSimulator) -> None:
    """Refuse a model whose density takes more than the values of its sites."""
    rows = (simulator.x_names, simulator.z_names, simulator.theta_names)
    shapes = [jax.ShapeDtypeStruct((len(names),), jnp.float32) for names in rows]
    try:
        jax.eval_shape(simulator.joint_log_prob, *shapes)
    except Exception as error:
        raise ValueError(
            "the joint density of the model could not be computed from its sites alone. Random "
            "numbers made outside of them, such as with numpyro.prng_key, have no known density: "
            f"draw them with numpyro.sample. {type(error).__name__}: {error}"
        ) from error


def _columns(sites: tuple[Site, ...]) -> Names:
    return tuple(name for site in sites for name in site.column_names)


def _flatten(sites: tuple[Site, ...], traced: Mapping[str, Any]) -> Array:
    values = [jnp.ravel(traced[site.name]["value"]).astype(jnp.float32) for site in sites]
    return jnp.concatenate([jnp.zeros(0, jnp.float32), *values])


def _unflatten(sites: tuple[Site, ...], row: Array) -> dict[str, Array]:
    """The values of the sites; discrete ones regain their own type."""
    values, first = {}, 0
    for site in sites:
        part = row[first : first + site.size].reshape(site.shape)
        whole = not jnp.issubdtype(site.dtype, jnp.floating)
        values[site.name] = part.astype(site.dtype) if whole else part
        first += site.size
    return values
