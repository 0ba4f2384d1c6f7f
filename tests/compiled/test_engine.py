"""On an NVIDIA GPU: a compiled step against the step as it is written."""

import numpy as np
import pytest
import torch

from tests.train.test_on_cuda import losses

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("r_drop", [0.0, 2.5])
def test_a_compiled_step_is_the_step_as_it_is_written(captured: bool, r_drop: float) -> None:
    plain, _ = losses(r_drop=r_drop)
    compiled, _ = losses(r_drop=r_drop, compiled=True, captured=captured)
    np.testing.assert_allclose(compiled, plain, rtol=1e-3, atol=1e-3)
