/** How private a total with binomial noise is, if one person can move it by some whole number. */

/** Compute the delta at eps of noise Bin(trials, chance) and its move, in the worse direction. */
export function binomialDelta(trials: number, chance: number, shift: number, epsilon: number): number {
  if (chance <= 0 || shift > trials) return 1;
  const pmf = logProbabilities(trials, chance, shift);
  const at = (i: number): number => (i >= 0 && i < pmf.length ? pmf[i]! : -Infinity);
  let up = 0;
  let down = 0;
  for (let i = 0; i < pmf.length; i++) {
    up += excess(pmf[i]!, at(i - shift), epsilon);
    down += excess(pmf[i]!, at(i + shift), epsilon);
  }
  return Math.max(up, down);
}

/** Compute (P - e^eps Q)+ from logarithms. */
function excess(logP: number, logQ: number, epsilon: number): number {
  const gap = epsilon + logQ - logP;
  return gap < 0 ? Math.exp(logP) * -Math.expm1(gap) : 0;
}

/** Compute the logarithms of the probabilities near the mean, beyond which there is less than 1e-40. */
function logProbabilities(n: number, p: number, shift: number): Float64Array {
  const mean = n * p;
  const reach = 15 * Math.sqrt(n * p * (1 - p)) + 2 * shift + 30;
  const low = Math.max(0, Math.floor(mean - reach));
  const high = Math.min(n, Math.ceil(mean + reach));
  const found = new Float64Array(high - low + 1);
  const odds = Math.log(p) - Math.log1p(-p);
  let largest = 0;
  for (let i = 1; i < found.length; i++) {
    const x = low + i; // ratios of neighbours, summed up, are correct for any number of trials
    found[i] = found[i - 1]! + (Math.log(n - x + 1) - Math.log(x) + odds);
    largest = Math.max(largest, found[i]!);
  }
  let sum = 0;
  for (const log of found) sum += Math.exp(log - largest);
  const whole = largest + Math.log(sum);
  return found.map((log) => log - whole);
}
