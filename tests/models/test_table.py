import pytest
import torch
from torch import Tensor, nn

from phalanx.models import build
from phalanx.models.table import LayerRow, layer_rows, parameter_count


def test_rows_of_a_convolutional_network() -> None:
    rows = layer_rows(build("simplecnn", input_shape=(1, 8, 6), classes=10), (1, 8, 6))
    assert rows[0] == LayerRow("0", "Conv2d", 40, (4, 8, 6), (4, 1, 3, 3), (1, 1), (1, 1))
    assert rows[4] == LayerRow("4", "MaxPool2d", 0, (8, 4, 3), None, 0, 2)
    assert rows[8] == LayerRow("8", "Linear", 1290, (10,), (10, 128), None, None)
    assert len(rows) == 9


class Backwards(nn.Module):
    """Defines its layers in another order than it runs them, and one that it never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(3, 2)
        self.unused = nn.Linear(9, 9)
        self.first = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.last(self.first(inputs))
        return output


def test_rows_come_in_execution_order() -> None:
    rows = layer_rows(Backwards(), (4,))
    assert [(row.name, row.output_shape) for row in rows] == [
        ("first", (3,)),
        ("last", (2,)),
        ("unused", None),
    ]


def test_a_layer_by_itself() -> None:
    (row,) = layer_rows(nn.Linear(4, 3), (4,))
    assert (row.name, row.parameters, row.output_shape) == ("(model)", 15, (3,))


def test_shared_weights_count_once_in_the_total() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    assert parameter_count(model) == 16 + 4 + 4
    assert [row.parameters for row in layer_rows(model, (4,))] == [20, 0, 20]


def test_a_layer_that_runs_twice_has_one_row() -> None:
    layer = nn.Linear(4, 4)
    assert len(layer_rows(nn.Sequential(layer, nn.ReLU(), layer), (4,))) == 2


class Scaled(nn.Module):
    """Has a weight of its own beside a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(7))
        self.layer = nn.Linear(4, 7)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.layer(inputs) * self.scale
        return output


def test_weights_outside_the_layers_are_listed() -> None:
    rows = layer_rows(Scaled(), (4,))
    assert [(row.name, row.parameters) for row in rows] == [("layer", 35), ("(model)", 7)]


class Restless(nn.Module):
    """Draws random numbers and changes its buffers on every run, whatever the mode."""

    counter: Tensor
    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("counter", torch.zeros(()))
        self.register_buffer("last", torch.zeros(1, 4))
        self.layer = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        self.counter += 1
        self.last = inputs + torch.rand(4)
        output: Tensor = self.layer(self.last)
        return output


def test_the_model_and_random_numbers_stay_as_they_were() -> None:
    frozen = nn.BatchNorm1d(2).eval()
    model = nn.Sequential(Restless(), frozen, nn.Dropout())
    modes = [module.training for module in model.modules()]
    state = {
        name: (value, value.clone()) for name, value in model.state_dict(keep_vars=True).items()
    }
    random = torch.get_rng_state()
    rows = layer_rows(model, (4,))
    assert rows[0].output_shape == (2,)
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random)
    for name, value in model.state_dict(keep_vars=True).items():
        same, copy = state[name]
        assert value is same
        assert torch.equal(value, copy)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_a_model_that_fails_on_zeros_has_rows_without_shapes() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(99, 2)).train()
    rows = layer_rows(model, (4,))
    assert [(row.name, row.parameters, row.output_shape) for row in rows] == [
        ("0", 15, None),
        ("1", 200, None),
    ]
    assert model.training
    assert not model[0]._forward_hooks


class Wordy(nn.Module):
    """Returns no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(4, 3, batch_first=True)

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        return {"output": self.recurrent(inputs)[0]}


def test_a_model_whose_output_is_no_tensor() -> None:
    (row,) = layer_rows(Wordy(), (5, 4))
    assert (row.type, row.output_shape, row.parameters) == ("LSTM", None, 4 * 3 * (4 + 3 + 2))


def test_inputs_may_be_whole_numbers() -> None:
    (row,) = layer_rows(nn.Embedding(10, 3), (6,), dtype=torch.int64)
    assert row.output_shape == (6, 3)


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_lazy_weights_stay_lazy() -> None:
    model = nn.Sequential(nn.LazyLinear(3))
    (row,) = layer_rows(model, (4,))
    assert (row.parameters, row.output_shape, row.weight_shape) == (0, None, None)
    assert parameter_count(model) == 0


class Odd(nn.Module):
    """Uses the name `padding` for something else."""

    padding = torch.zeros(3)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs


def test_attributes_of_user_layers_do_not_confuse() -> None:
    (row,) = layer_rows(Odd(), (4,))
    assert row.padding is None
