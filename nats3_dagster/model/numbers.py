"""Numbers of many messages at once. Apart from the Arrow schema, which takes 0.1 s to import."""

import numpy as np
from numpy.typing import NDArray

# Sequences, nanoseconds or sizes.
Int64s = NDArray[np.int64]
