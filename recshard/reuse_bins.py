"""The bins of a reuse histogram: how many lookups a row received, in powers of two.

A row with count c stands in the bin (0, 1], (1, 2], (2, 4] … (16384, 32768] or above: those of AutoShard
(KDD '22) and of the histograms that Meta publishes with its traces (dlrm_datasets, "Histogram of col sizes").
Counted statistics and the features of the learned cost model both use them, so they belong to neither.
"""

from __future__ import annotations

import numpy as np

REUSE_BINS = 17
REUSE_EDGES = 2 ** np.arange(REUSE_BINS - 1, dtype=np.int64)  # the most lookups of every bin but the last
REUSE_EDGES.setflags(write=False)
