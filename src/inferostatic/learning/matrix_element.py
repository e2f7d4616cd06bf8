"""`fit_matrix_element`: train what the matrix-element method needs, a proposal and a transfer."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..estimator.density import DensityEstimator
from ..estimator.matrix_element import MatrixElement, evaluate_log_density
from ..events.events import Events
from ..events.latent import JointDensity, Latent
from ..inputs import kind_of
from ..models.flows.flow import Flow
from ..models.matrix_element import MEM
from ..supervision.joint_identities import require_identities
from ..supervision.supervision import trusted_region
from .arguments import FitOptions
from .density_methods import NDE
from .draw import Records
from .train_estimator import record_provenance, train_estimator


def fit_matrix_element(events: Events | Records, method: MEM, options: FitOptions) -> MatrixElement:
    """Learn the proposal and, where it is not given, the transfer density, each by NDE."""
    if not isinstance(events, Events):
        raise TypeError(f"MEM learns from ist.Events; got {kind_of(events)}.")
    if options.start is not None:
        raise ValueError("MEM trains two networks and cannot be started from one; leave out start.")
    network = options.network
    if network is not None and not isinstance(network, Flow):
        raise TypeError(f"MEM trains densities: network must be ist.Flow(…); got {network!r}.")
    z = _latent_variables(events, method)
    _check_functions(events, z, method)
    names = tuple(f"{method.name}_{i + 1}" for i in range(z.shape[1]))
    transfer = None
    if method.transfer is None:
        given_z = Events(
            x=events.x, theta=z, weight=events.weight, x_names=events.x_names, theta_names=names
        ).with_origin(events.origin)
        transfer = train_estimator(given_z, NDE(), options)
    given_x = Events(
        x=z, theta=events.x, weight=events.weight, x_names=names, theta_names=events.x_names
    ).with_origin(events.origin)
    proposal = train_estimator(given_x, NDE(), options)
    prior = events.stored_prior() if events.prior is None else events.prior
    low, high = trusted_region(prior, events.theta)
    assert isinstance(proposal, DensityEstimator)
    assert transfer is None or isinstance(transfer, DensityEstimator)
    return MatrixElement(
        method=method,
        transfer=transfer,
        proposal=proposal,
        x_names=events.x_names,
        theta_names=events.theta_names,
        theta_low=np.asarray(low, np.float64),
        theta_high=np.asarray(high, np.float64),
        prior=events.prior,
        provenance=record_provenance(events, options),
    )


def _latent_variables(events: Events, method: MEM) -> np.ndarray:
    if method.name not in events.latent:
        raise ValueError(
            f"MEM needs the latent variables of the events, latent={{{method.name!r}: z}} with z "
            f"of shape (n, k); the latent arrays of these are {sorted(events.latent) or 'none'}."
        )
    z = np.asarray(events.latent[method.name])
    z = z[:, None] if z.ndim == 1 else z
    if z.ndim != 2:
        raise ValueError(f"latent {method.name!r} must have shape (n, k); got {z.shape}.")
    return z


def _check_functions(events: Events, z: np.ndarray, method: MEM) -> None:
    """Numbers of shape (), and a density of z that obeys the identities of one."""

    def joint(x: Array, z: Array, theta: Array) -> Any:  # noqa: ANN401
        del x
        return method.latent_log_prob(z, theta)

    latent = Latent({method.name: z}, JointDensity(joint, method.name))
    require_identities(dataclasses.replace(events, latent=latent))
    if method.transfer is None:
        return
    shapes = [jax.ShapeDtypeStruct((a.shape[1],), jnp.float32) for a in (events.x, z)]
    value = jax.eval_shape(method.transfer, *shapes)
    if value.shape != ():
        raise ValueError(
            f"transfer takes one event (x, z) and gives one number, of shape (); got {value.shape}."
        )
    evaluate_log_density(method.transfer, "transfer", events.x[:1000], z[:1000])
