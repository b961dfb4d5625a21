"""The kernels by name, and what a kernel is.

The paper's printed squared exponential lacks the square and its Matérn the power nu; these are the standard forms
(Rasmussen and Williams 2006, section 4.2).
"""

from voxpop.core.kernels.distances import Distances, fast_distances
from voxpop.core.kernels.kernel import Kernel, Product, Scaled, Sum
from voxpop.core.kernels.precomputed import Precomputed
from voxpop.core.kernels.standard import Constant, LengthScaled, Linear, Matern, SquaredExponential, Stationary

__all__ = [
    "KERNELS",
    "Constant",
    "Distances",
    "Kernel",
    "LengthScaled",
    "Linear",
    "Matern",
    "Precomputed",
    "Product",
    "Scaled",
    "SquaredExponential",
    "Stationary",
    "Sum",
    "fast_distances",
]

KERNELS: dict[str, type[Kernel]] = {
    "squared-exponential": SquaredExponential,
    "matern": Matern,
    "linear": Linear,
    "constant": Constant,
    "precomputed": Precomputed,
    "sum": Sum,
    "product": Product,
    "scaled": Scaled,
}
