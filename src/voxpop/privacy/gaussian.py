"""How much Gaussian noise (eps, delta) takes: exactly, and as the paper prints it.

The noise multiplier is the noise's standard deviation divided by the L2 sensitivity. The exact one is that of Balle and
Wang (2018), computed by dp-accounting; the classical one, sqrt(2 ln(1.25/delta)) / eps, is proved for eps < 1 only and
is too small above eps = 8.8 at delta = 1e-6.
"""

import math
from functools import lru_cache
from typing import Any

from scipy.special import log_ndtr

from voxpop.errors import InputError, require_number


def require_epsilon(epsilon: object) -> float:
    """Return eps if it is usable, or raise an error."""
    return require_number("epsilon", epsilon, above=0, most=1000)


def require_delta(delta: object) -> float:
    """Return delta if it is usable, or raise an error."""
    return require_number("delta", delta, above=0, below=1)


@lru_cache(maxsize=256)
def noise_multiplier(epsilon: float, delta: float) -> float:
    """Compute the least multiplier that gives (eps, delta).

    >>> round(noise_multiplier(1.0, 1e-6), 3)
    4.225
    """
    # The library's root may be too small by about 1e-11.
    return float(_library().get_sigma_gaussian(require_epsilon(epsilon), require_delta(delta))) * (1 + 1e-9)


def epsilon_of(multiplier: float, delta: float) -> float:
    """Compute the eps that a multiplier gives at delta."""
    return float(_library().get_epsilon_gaussian(multiplier, delta))


def delta_of(multiplier: float, epsilon: float) -> float:
    """Compute the delta of a multiplier m at eps: Phi(1/2m - eps m) - e^eps Phi(-1/2m - eps m), in logarithms."""
    half, shift = 1 / (2 * multiplier), epsilon * multiplier
    first, second = float(log_ndtr(half - shift)), epsilon + float(log_ndtr(-half - shift))
    return math.exp(first) * -math.expm1(second - first) if second < first else 0.0


def classical_multiplier(epsilon: float, delta: float) -> float:
    """Compute the multiplier of thm:gaussian_mech as printed: sqrt(2 ln(1.25/delta)) / eps."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def _library() -> Any:
    try:
        from dp_accounting import gaussian_mechanism
    except ImportError:
        raise InputError("privacy needs dp-accounting; install it with: pip install 'voxpop[privacy]'") from None
    return gaussian_mechanism
