/** How much Gaussian noise (eps, delta) takes, exactly: Balle and Wang (2018). */

/** Compute the logarithm of the Gaussian distribution function. */
export function logPhi(x: number): number {
  if (x > 0) return Math.log1p(-Math.exp(logPhi(-x)));
  if (x > -2) {
    let term = x;
    let sum = x;
    for (let k = 3; Math.abs(term) > 1e-18; k += 2) sum += term *= (x * x) / k;
    return Math.log(0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI));
  }
  let tail = -x; // of Laplace's continued fraction, from its far end
  for (let k = 120; k > 0; k--) tail = -x + k / tail;
  return (-x * x) / 2 - Math.log(2 * Math.PI) / 2 - Math.log(tail);
}

/** Compute the logarithm of delta at eps, for noise of m times the sensitivity. */
function logDelta(m: number, epsilon: number): number {
  const point = epsilon * m + 1 / (2 * m);
  const first = logPhi(1 / m - point);
  const second = epsilon + logPhi(-point);
  return second <= first ? first + Math.log1p(-Math.exp(second - first)) : -Infinity;
}

/** Compute the least noise multiplier that gives (eps, delta). */
export function noiseMultiplier(epsilon: number, delta: number): number {
  const wanted = Math.log(delta);
  let low = 0.1;
  let high = 1;
  while (logDelta(low, epsilon) < wanted) [high, low] = [low, low / 10];
  while (logDelta(high, epsilon) > wanted) [low, high] = [high, high * 10];
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (logDelta(middle, epsilon) > wanted) low = middle;
    else high = middle;
  }
  return high * (1 + 1e-9);
}
