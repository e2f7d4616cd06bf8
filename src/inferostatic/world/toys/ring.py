"""A ring whose radius is the length of θ: sharp, mirrored modes of the likelihood."""

from dataclasses import dataclass
from typing import final

import numpy as np

from .toy import (
    FREE,
    AbstractToy,
    Domain,
    PerEvent,
    Theta,
    X,
    refuse_rows,
    require_positive,
)


@final
@dataclass(frozen=True)
class Ring(AbstractToy):
    r"""A point near a circle of radius $|\theta|$, and a height near $\theta_1^2$.

    With independent standard normal $n$, $n'$ and an angle $a$ that is uniform on $[0, 2\pi)$,

    $$R = |\theta| + w\,n, \qquad x = (R\cos a,\; R\sin a,\; \theta_1^2 + h\,n').$$

    A negative R is a positive one at the opposite angle, so both signs of $r = |(x_1, x_2)|$ count:

    $$p(x;\theta) = \frac{N(r; |\theta|, w) + N(-r; |\theta|, w)}{2\pi r}\,N(x_3; \theta_1^2, h),
    \qquad s = \frac{\theta}{w^2}\left(\frac{r}{|\theta|}\tanh\frac{r|\theta|}{w^2} - 1\right)
    + \frac{2\theta_1}{h^2}\,(x_3 - \theta_1^2)\,(1, 0).$$

    Changing the sign of either parameter changes nothing. One event has therefore four mirrored
    modes, narrow beside a prior on $[-2, 2]^2$.

    Attributes:
        width: The standard deviation $w$ of the radius.
        height_width: The standard deviation $h$ of the height.

    Example:
        >>> toy = Ring()
        >>> x = toy(np.tile([0.6, -0.8], (2, 1)), np.random.default_rng(1))
        >>> x.round(4)
        array([[ 0.6384,  0.8141,  0.6316],
               [ 1.0263, -0.3431,  0.4939]])
        >>> toy.score(x, [0.6, -0.8]).round(4)
        array([[ 5.6949, -2.7647],
               [ 6.7152, -6.5729]])
    """

    width: float = 0.1
    height_width: float = 0.3

    def __post_init__(self) -> None:
        """Refuse widths that are not positive numbers."""
        require_positive(self.width, "width", "give the standard deviation of the radius")
        require_positive(
            self.height_width, "height_width", "give the standard deviation of the height"
        )

    def _domain(self) -> Domain:
        return {"theta_1": FREE, "theta_2": FREE}

    @property
    def x_names(self) -> tuple[str, ...]:
        """`x_1` and `x_2`, the point, and `x_3`, the height."""
        return ("x_1", "x_2", "x_3")

    def _draw(self, theta: Theta, rng: np.random.Generator) -> X:
        radius = np.hypot(*theta.T) + self.width * rng.standard_normal(len(theta))
        angle = rng.uniform(0, 2 * np.pi, len(theta))
        height = theta[:, 0] ** 2 + self.height_width * rng.standard_normal(len(theta))
        return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)

    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        r, centre = np.hypot(x[:, 0], x[:, 1]), np.hypot(*theta.T)
        outside, inside = (r - centre) / self.width, (r + centre) / self.width
        up = (x[:, 2] - theta[:, 0] ** 2) / self.height_width
        log_radius = np.logaddexp(-(outside**2) / 2, -(inside**2) / 2) - np.log(2 * np.pi * r)
        log_widths = np.log(self.width) + np.log(self.height_width) + np.log(2 * np.pi)
        return log_radius - up**2 / 2 - log_widths

    def _score(self, x: X, theta: Theta) -> Theta:
        r, centre = np.hypot(x[:, 0], x[:, 1]), np.hypot(*theta.T)
        square = self.width**2
        # At θ = 0 the score is 0, whatever finite factor θ has.
        length = np.where(centre == 0, 1.0, centre)
        score = theta * ((r * np.tanh(r * centre / square) / length - 1) / square)[:, None]
        score[:, 0] += 2 * theta[:, 0] * (x[:, 2] - theta[:, 0] ** 2) / self.height_width**2
        return score

    def _check_support(self, x: X) -> None:
        refuse_rows(
            (x[:, 0] == 0) & (x[:, 1] == 0),
            x,
            expected="x_1 and x_2 that are not both 0, where the density is infinite",
            remedy="Remove such events, or keep float64",
        )
