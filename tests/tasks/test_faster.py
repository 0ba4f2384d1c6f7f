"""The faster copy of a model says what the model says now, whoever changed the weights."""

import torch
from torch import nn
from torch.testing import assert_close

from regard.tasks.faster import Faster
from regard.train.flat import FlatParameters


def test_a_copy_is_made_anew_when_weights_have_changed():
    model, x = nn.Sequential(nn.Linear(4, 3)).eval(), torch.randn(2, 4)
    faster = Faster(model, "float32")
    with torch.no_grad():
        assert_close(faster.now()(x), model(x))
        assert faster.now() is faster.now() is not model
        model[0].weight.mul_(2)
        assert_close(faster.now()(x), model(x))


def test_a_model_that_is_being_trained_works_itself():
    model = nn.Sequential(nn.Linear(4, 3)).eval()
    before = Faster(model, "float32").now()
    FlatParameters(model)  # the weights are views of its vector now, and are not told when that changes
    assert before is not model
    assert Faster(model, "float32").now() is model
