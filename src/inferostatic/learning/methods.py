"""Named methods as compositions: supervision × loss × weight.

CARL, DCTR and KLRE differ in the distribution of pairs; KCE is the candidate-set form; `Mix` trains
one potential with a weighted sum of them.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..events.events import Events
from ..inputs import FLOAT32_MAX, Input, as_count, as_flag, as_floats, as_number, kind_of
from ..serial import known
from ..supervision.candidates import (
    AbstractCandidates,
    AroundCentre,
    CandidateSets,
    FromPrior,
    MultiScale,
)
from ..supervision.difference import AbstractDifference, Linear
from ..supervision.kernel_score import KernelScore
from ..supervision.kernels import AbstractKernel
from ..supervision.latent import FromJoint
from ..supervision.pairs import AbstractPairs, Independent, KernelPairs, LabelledPairs
from ..supervision.records import AbstractRecord, Capability, Key, Number, Numbers, Questioned, Row
from ..supervision.references import ReferencePoint, ReferenceSample
from ..supervision.supervision import AbstractSupervision, Supply, ThetaDistribution
from .losses import (
    AbstractLoss,
    AbstractRatioLoss,
    Logistic,
    SoftCandidateCrossEntropy,
    SoftmaxCrossEntropy,
    SquaredError,
)

_Records = tuple[AbstractRecord, ...]


class AbstractMethod(eqx.Module):
    """A way to train a model."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What a model must offer."""
        return frozenset(supervision.capability for supervision in self.supervisions)

    @property
    @abc.abstractmethod
    def supervisions(self) -> tuple[AbstractSupervision, ...]:
        """What asks the model."""

    @abc.abstractmethod
    def supply(self, events: Events) -> Supply:
        """Check and lay out stored events."""

    @abc.abstractmethod
    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> Any:  # noqa: ANN401
        """Fresh records for one stored event."""

    @abc.abstractmethod
    def loss_of(self, model: Questioned, x: Array, record: Any) -> Number:  # noqa: ANN401
        """Weighted loss of one event."""

    @abc.abstractmethod
    def losses_of(self, model: Questioned, x: Array, record: Any) -> Numbers:  # noqa: ANN401
        """Weighted losses of a batch of events."""

    @property
    @abc.abstractmethod
    def has_limit(self) -> bool:
        """Whether a loss is continued linearly anywhere."""

    @abc.abstractmethod
    def beyond_limit(self, model: Questioned, x: Array, record: Any) -> Number:  # noqa: ANN401
        """1 where a loss had to be continued linearly, else 0."""


@known
class Method(AbstractMethod):
    """A supervision and a loss, under a published name."""

    name: str = eqx.field(static=True)
    supervision: AbstractSupervision
    loss: AbstractLoss

    @property
    def supervisions(self) -> tuple[AbstractSupervision, ...]:
        """The one."""
        return (self.supervision,)

    def supply(self, events: Events) -> Supply:
        """By the supervision."""
        return self.supervision.supply(events)

    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> AbstractRecord:
        """By the supervision."""
        return self.supervision.supervise(row, distribution, key=key)

    def loss_of(self, model: Questioned, x: Array, record: AbstractRecord) -> Number:
        """The record's question, answered, compared and weighted."""
        return record.weight * self.loss(record.ask(model, x), record.answer)

    def losses_of(self, model: Questioned, x: Array, record: AbstractRecord) -> Numbers:
        """The same for a batch."""
        return record.weight * jax.vmap(self.loss)(record.ask_all(model, x), record.answer)

    @property
    def has_limit(self) -> bool:
        """As the loss says."""
        return self.loss.limit is not None

    def beyond_limit(self, model: Questioned, x: Array, record: AbstractRecord) -> Number:
        """Whether |l| lies beyond the loss's limit."""
        if self.loss.limit is None:
            return jnp.zeros(())
        return (jnp.abs(record.ask(model, x)) > self.loss.limit).astype(jnp.float32)

    def __str__(self) -> str:
        return self.name


@known
class MixedMethod(AbstractMethod):
    """A weighted sum of methods on one model (complementary training)."""

    methods: tuple[Method, ...]
    weights: tuple[float, ...] = eqx.field(static=True)
    name: str | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        """One positive weight for each method."""
        for given in (self.methods, self.weights):
            if not isinstance(given, tuple):
                raise TypeError(f"a mixed method has a list of methods; got {given!r}.")
        if len(self.methods) != len(self.weights):
            raise ValueError("a mixed method has a weight for each method.")
        for method, weight in zip(self.methods, self.weights, strict=True):
            as_number(weight, "a weight of Mix", above=0)
            if not isinstance(method, Method):
                raise TypeError(f"Mix takes methods such as ist.KCE(); got {kind_of(method)}.")

    @property
    def parts(self) -> list[tuple[float, Method]]:
        """Weights and methods."""
        return list(zip(self.weights, self.methods, strict=True))

    @property
    def supervisions(self) -> tuple[AbstractSupervision, ...]:
        """Those of all parts."""
        return tuple(method.supervision for method in self.methods)

    def supply(self, events: Events) -> Supply:
        """All parts must accept the same rows; the trusted region is their intersection."""
        supplies = [method.supply(events) for method in self.methods]
        first = supplies[0]
        for other in supplies[1:]:
            same = len(other.weight) == len(first.weight) and bool(
                jnp.all(other.rows.is_reference == first.rows.is_reference)
                & jnp.all(other.rows.x == first.rows.x)
            )
            if not same:
                raise ValueError(
                    "a method with reference events can only be mixed with one that has the same "
                    "reference events: otherwise they train on different rows."
                )
        # All parts read the same events, so what only one of them needs is added to the others'.
        latent = {name: array for s in supplies for name, array in s.rows.latent.items()}
        distribution = ThetaDistribution(
            first.distribution.prior,
            np.max([s.distribution.low for s in supplies], axis=0),
            np.min([s.distribution.high for s in supplies], axis=0),
            next(
                (s.distribution.joint for s in supplies if s.distribution.joint is not None), None
            ),
            next((s.distribution.unit for s in supplies if s.distribution.unit is not None), None),
        )
        return Supply(dataclasses.replace(first.rows, latent=latent), first.weight, distribution)

    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: Key) -> _Records:
        """One record for each part."""
        keys = jax.random.split(key, len(self.methods))
        pairs = zip(self.methods, keys, strict=True)
        return tuple(method.supervise(row, distribution, key=k) for method, k in pairs)

    def loss_of(self, model: Questioned, x: Array, record: _Records) -> Number:
        """Σ weight × loss."""
        parts = zip(self.weights, self.methods, record, strict=True)
        return jnp.stack([w * method.loss_of(model, x, r) for w, method, r in parts]).sum()

    def losses_of(self, model: Questioned, x: Array, record: _Records) -> Numbers:
        """The same for a batch."""
        parts = zip(self.weights, self.methods, record, strict=True)
        terms = [w * method.losses_of(model, x, r) for w, method, r in parts]
        return jnp.stack(terms).sum(axis=0)

    @property
    def has_limit(self) -> bool:
        """Whether any part has one."""
        return any(method.has_limit for method in self.methods)

    def beyond_limit(self, model: Questioned, x: Array, record: _Records) -> Number:
        """Whether any part is."""
        parts = zip(self.methods, record, strict=True)
        return jnp.stack([method.beyond_limit(model, x, r) for method, r in parts]).max()

    def __str__(self) -> str:
        if self.name is not None:
            return self.name
        parts = zip(self.weights, self.methods, strict=True)
        return "Mix(" + " + ".join(f"{weight:g} {method}" for weight, method in parts) + ")"


def KSE(kernel: AbstractKernel, difference: AbstractDifference | None = None) -> Method:
    """Kernel Score Estimation: regress the score on displacements of θ.

    With `ist.draw` it is form 1 (`eq:ksa`), on stored events form 2 (`eq:s_KSA2`). It converges to
    the kernel score approximation, biased at second order in the width.
    """
    difference = Linear() if difference is None else difference
    if not isinstance(difference, AbstractDifference):
        raise TypeError(f"difference must be such as ist.Sign(); got {kind_of(difference)}.")
    return Method("KSE", KernelScore(_kernel(kernel), difference), SquaredError())


def KLRE(kernel: AbstractKernel, loss: AbstractRatioLoss | None = None) -> Method:
    """Kernel Likelihood Ratio Estimation: classify between neighbouring θ (`eq:pi_pair_kernel`)."""
    return Method("KLRE", LabelledPairs(KernelPairs(_kernel(kernel))), ratio_loss(loss))


def CARL(
    *,
    reference: Input | Events | None = None,
    pairs: AbstractPairs | None = None,
    loss: AbstractRatioLoss | None = None,
) -> Method:
    """Classification between independent θ0 and θ1, or against a reference.

    Args:
        reference: None for the doubly parameterised ratio; a parameter point; or a set of events
            from any density p_ref, for which the potential becomes ln p(x; θ) − ln p_ref(x).
        pairs: another distribution of pairs, such as `ist.CustomPairs`, in place of
            `ist.Independent()`.
        loss: a proper loss; logistic by default.
    """
    if reference is None:
        return Method("CARL", labelled_pairs(pairs), ratio_loss(loss))
    if pairs is not None:
        raise ValueError("give either reference= or pairs=, not both.")
    return Method("CARL", _reference(reference), ratio_loss(loss))


def DCTR(reference: Input | Events) -> Method:
    """Reweighting by classification against a reference point or sample: CARL to a reference."""
    return Method("DCTR", _reference(reference), Logistic())


def KCE(
    candidates: AbstractKernel | AbstractCandidates | Independent | None = None,
    number: int = 7,
    *,
    latent: bool = False,
) -> Method:
    """Kernel Contrastive Estimation: find the true θ among exchangeable candidates.

    Args:
        candidates: None for multi-scale candidates, a kernel for a fixed width, or
            `ist.Independent()` for candidates from the prior of θ.
        number: K, candidates besides the true θ.
        latent: learn from the joint density of the events' latent variables, which gives every
            candidate a probability, instead of from the true θ alone.
    """
    if candidates is None:
        chosen: AbstractCandidates = MultiScale()
    elif isinstance(candidates, AbstractKernel):
        chosen = AroundCentre(candidates)
    elif isinstance(candidates, Independent):
        chosen = FromPrior()
    elif isinstance(candidates, AbstractCandidates):
        chosen = candidates
    else:
        raise TypeError(
            "KCE takes a kernel such as ist.Rectangular(0.4), ist.MultiScale() or "
            f"ist.Independent(); got {candidates!r}."
        )
    sets = CandidateSets(chosen, as_count(number, "number"))
    if as_flag(latent, "latent"):
        return Method("latent KCE", FromJoint(sets), SoftCandidateCrossEntropy())
    return Method("KCE", sets, SoftmaxCrossEntropy())


def Mix(methods: Sequence[tuple[float, Method | MixedMethod]]) -> MixedMethod:
    """A weighted sum of methods: `ist.Mix([(1.0, ist.KCE()), (0.1, ist.KSE(kernel))])`."""
    expected = "Mix takes a list of (positive weight, method), such as [(1.0, ist.KCE())]"
    pairs: list[Any] = []
    if isinstance(methods, Sequence) and not isinstance(methods, str):
        pairs = list(methods)
    parts: list[tuple[float, Method]] = []
    for pair in pairs or [methods]:
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            raise ValueError(f"{expected}; got {kind_of(pair)}.")
        weight, method = pair
        if not isinstance(method, Method | MixedMethod):
            raise ValueError(f"{expected}; got ({weight!r}, {kind_of(method)}).")
        weight = as_number(weight, "a weight of Mix", above=0)
        inner = [(1.0, method)] if isinstance(method, Method) else method.parts
        parts += [(float(weight) * w, m) for w, m in inner]
    return MixedMethod(tuple(m for _, m in parts), tuple(w for w, _ in parts))


def ratio_loss(loss: object) -> AbstractRatioLoss:
    """A loss of labels, the logistic one where there is none."""
    if loss is None:
        return Logistic()
    if not isinstance(loss, AbstractRatioLoss):
        raise TypeError(f"loss must be such as ist.Logistic(); got {kind_of(loss)}.")
    if loss.needs_joint_ratio:
        raise ValueError(
            f"{type(loss).__name__} compares with joint ratios: use ist.ROLR() or "
            f"ist.LatentLoss(ist.{type(loss).__name__}())."
        )
    return loss


def _kernel(kernel: object) -> AbstractKernel:
    if not isinstance(kernel, AbstractKernel):
        raise TypeError(f"a kernel such as ist.Delta(0.25) was expected; got {kernel!r}.")
    return kernel


def labelled_pairs(pairs: object) -> LabelledPairs:
    """Labelled pairs, of independent θ by default."""
    pairs = Independent() if pairs is None else pairs
    if not isinstance(pairs, AbstractPairs):
        raise TypeError(f"pairs must be such as ist.CustomPairs(…); got {kind_of(pairs)}.")
    return LabelledPairs(pairs)


def _reference(reference: Input | Events) -> ReferencePoint | ReferenceSample:
    if isinstance(reference, Events):
        return ReferenceSample(reference.x, reference.weight, reference.x_names)
    return reference_point(reference)


def reference_point(reference: Input) -> ReferencePoint:
    """A parameter point."""
    point = np.atleast_1d(as_floats(reference, "reference"))
    if point.ndim != 1 or not point.size:
        raise ValueError(
            "reference must be one parameter point, shape (d,), or an Events set; got shape "
            f"{point.shape}. For a sample of x use ist.Events(x=…, theta=…)."
        )
    if not (np.abs(point) <= FLOAT32_MAX).all():
        raise ValueError(f"reference must be finite in float32; got {point.tolist()}.")
    return ReferencePoint(tuple(float(v) for v in point.astype(np.float32)))
