r"""Methods that learn from latent information: the rest of the paper's landscape table.

ALICE, ROLR and the latent losses of Appendix A replace a label by its mean given the latent
variables; CASCAL, RASCAL and ALICES add the joint score as a second teacher; SALLY has no other.
All train the same potential as the methods that need no latent information.
"""

import numpy as np

from ..events.events import Events
from ..inputs import Input, as_floats, as_number, kind_of, rounded
from ..supervision.latent import FromJoint, JointScore
from ..supervision.pairs import AbstractPairs, LabelledPairs
from ..supervision.references import ReferencePoint
from .losses import AbstractLoss, AbstractRatioLoss, Logistic, ROLRLoss, SummedSquares
from .methods import CARL, Method, MixedMethod, labelled_pairs, reference_point

_Pairs = LabelledPairs | ReferencePoint


def LatentLoss(
    loss: AbstractRatioLoss, *, reference: Input | None = None, pairs: AbstractPairs | None = None
) -> Method:
    """A loss of Appendix A: the label replaced by 1/(1 + r_lat), its mean given (x, z).

    Args:
        loss: `ist.Logistic()` (ALICE), `ist.Square()`, `ist.Exponential()`, `ist.Savage()` or
            `ist.ROLRLoss()`.
        reference: None for the doubly parameterised ratio, or a parameter point.
        pairs: another distribution of pairs in place of `ist.Independent()`.
    """
    if not isinstance(loss, AbstractRatioLoss):
        raise TypeError(f"loss must be such as ist.Square(); got {kind_of(loss)}.")
    name = f"latent {type(loss).__name__.removesuffix('Loss')}"
    return _latent(name, loss, _pairs(reference, pairs), soft=True)


def ALICE(*, reference: Input | None = None, pairs: AbstractPairs | None = None) -> Method:
    """Logistic loss with the joint ratio's own label: CARL with less variance."""
    return _latent("ALICE", Logistic(), _pairs(reference, pairs), soft=True)


def ROLR(
    *, reference: Input | None = None, pairs: AbstractPairs | None = None, edge: float = 10.0
) -> Method:
    """Regression on the joint ratio, y(r̂ − r)² + (1−y)(1/r̂ − 1/r)².

    Ratios are continued linearly beyond |ln r| = `edge`.
    """
    return _latent("ROLR", ROLRLoss(edge), _pairs(reference, pairs), soft=False)


def CASCAL(
    alpha: float = 1.0,
    *,
    reference: Input | None = None,
    pairs: AbstractPairs | None = None,
    unit: Input | None = None,
) -> MixedMethod:
    r"""CARL and α |∇θ ln r̂ − t|² at the θ that made the event.

    Args:
        alpha: weight of the score term \(\alpha\sum_i u_i^2(\hat s_i - t_i)^2\).
        reference: None for the doubly parameterised ratio, or a parameter point.
        pairs: another distribution of pairs in place of `ist.Independent()`.
        unit: u, the unit of θ in which α is stated, one number or one for each parameter. The
            default is the standard deviation of the prior, so that α is a pure number.
    """
    carl = CARL(reference=reference, pairs=pairs)
    return _with_score("CASCAL", carl, alpha, _pairs(reference, pairs), unit)


def RASCAL(
    alpha: float = 1.0,
    *,
    reference: Input | None = None,
    pairs: AbstractPairs | None = None,
    unit: Input | None = None,
    edge: float = 10.0,
) -> MixedMethod:
    """ROLR and α |∇θ ln r̂ − t|² at the θ that made the event; arguments as for `CASCAL`."""
    rolr = ROLR(reference=reference, pairs=pairs, edge=edge)
    return _with_score("RASCAL", rolr, alpha, _pairs(reference, pairs), unit)


def ALICES(
    alpha: float = 1.0,
    *,
    reference: Input | None = None,
    pairs: AbstractPairs | None = None,
    unit: Input | None = None,
) -> MixedMethod:
    """ALICE and α |∇θ ln r̂ − t|² at the θ that made the event; arguments as for `CASCAL`."""
    alice = ALICE(reference=reference, pairs=pairs)
    return _with_score("ALICES", alice, alpha, _pairs(reference, pairs), unit)


def SALLY(*, reference: Input | None = None, unit: Input | None = None) -> Method:
    """Regression of the score on joint scores, at a reference point or at every θ.

    Args:
        reference: a parameter point where the score is learned as a locally optimal observable,
            from the events simulated there; `network=ist.DirectScore()` is the usual choice. None
            for the score at every θ, which gives a potential its ratios as well.
        unit: of θ in which errors of the components are compared. The default is the standard
            deviation of the prior; at a reference every component counts by its own spread.
    """
    return score_method("SALLY", None, reference, unit)


def SALLINO(*, reference: Input, unit: Input | None = None) -> Method:
    """SALLY at a reference, whose score is used along one direction, ŝ(x)·(θ − θ_ref).

    The training is that of `SALLY`; the projection is `ist.observable(est, reference,
    direction=theta - reference)`.
    """
    if reference is None:
        raise TypeError("SALLINO learns the score at a reference point; give reference=.")
    return score_method("SALLINO", None, reference, unit)


def _latent(name: str, loss: AbstractLoss, pairs: _Pairs, *, soft: bool) -> Method:
    ratio = isinstance(loss, AbstractRatioLoss) and loss.needs_joint_ratio
    return Method(name, FromJoint(pairs, soft=soft, ratio=ratio), loss)


def _with_score(
    name: str, method: Method, alpha: object, pairs: _Pairs, unit: Input | None
) -> MixedMethod:
    term = score_method("joint score", pairs, None, unit)
    return MixedMethod((method, term), (1.0, as_number(alpha, "alpha", above=0)), name)


def score_method(
    name: str, pairs: _Pairs | None, reference: Input | None, unit: Input | None
) -> Method:
    """Regression of the score on joint scores, of ratios where there are pairs."""
    point = None if reference is None else _point(reference).theta_ref
    scale = None
    if unit is not None:
        units = np.atleast_1d(as_floats(unit, "unit"))
        if units.ndim != 1 or not units.size or not ((units > 0) & (units < np.inf)).all():
            raise ValueError(
                "unit must be one positive number, or one for each parameter; got "
                f"{rounded(units)} of shape {units.shape}."
            )
        scale = tuple(float(u) for u in units)
    return Method(name, JointScore(pairs, point, scale), SummedSquares())


def _pairs(reference: Input | None, pairs: object) -> _Pairs:
    if reference is not None and pairs is not None:
        raise ValueError("give either reference= or pairs=, not both.")
    if reference is not None:
        return _point(reference)
    return labelled_pairs(pairs)


def _point(reference: Input) -> ReferencePoint:
    if isinstance(reference, Events):
        raise TypeError(
            "reference must be one parameter point for methods that learn from latent information; "
            "got Events. Join these to the others, ist.Events.concatenate([events, reference], "
            "prior=prior), and give their θ as reference=."
        )
    return reference_point(reference)
