# SPDX-License-Identifier: Apache-2.0
"""Statistics of pairs: the two figures of a pair were measured one after the other, in two ways."""

import random
import statistics


def median_ratio(pairs):
    """The median of the pairs' ratios; of counters that may be 0, the ratio of sums."""
    if any(not other for _, other in pairs):
        below = sum(other for _, other in pairs)
        return sum(one for one, _ in pairs) / below if below else 1.0
    return statistics.median(one / other for one, other in pairs)


def interval(pairs, rounds=2000):
    """Its 95 % confidence interval, by bootstrap over the pairs."""
    draw = random.Random(1)
    ratios = sorted(median_ratio([draw.choice(pairs) for _ in pairs]) for _ in range(rounds))
    return ratios[rounds // 40], ratios[-1 - rounds // 40]
