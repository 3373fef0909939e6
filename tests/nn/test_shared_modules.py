"""A module under two names, and a parameter in two modules: each path leads to it, and it stays one."""

import copy

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.core.errors import OptionError, StateError
from minitransformer.training.averaging import MovingAverage, mean_of


class Tied(nn.Module):
    """One matrix as embedding and output layer."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(4, 3)
        self.head = nn.Linear(3, 4, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(x)


class TiedAndRepeated(Tied):
    """The same, with the embedding under a second path."""

    def __init__(self):
        super().__init__()
        self.again = self.embedding


def repeated():
    """One layer and one normalization at several places."""
    layer = nn.Linear(3, 3)
    norm = nn.BatchNorm1d(3)
    return nn.Sequential(layer, norm, nn.ReLU(), layer, norm)


MODELS = {"a module twice": repeated, "a parameter twice": Tied, "both": TiedAndRepeated}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=list(MODELS))


def groups(model):
    """The paths of each tensor of a model."""
    found = {}
    tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    for name, tensor in tensors:
        found.setdefault(id(tensor), []).append(name)
    return sorted(found.values())


def other_state(model, value=0.5):
    return {name: mg.full_like(x, value) for name, x in model.state_dict().items()}


def assert_state_is(model, state):
    for name, x in model.state_dict().items():
        np.testing.assert_array_equal(x.array, np.asarray(state[name]), err_msg=name)


@every_model
def test_tied_parameters_survive_copies_and_conversions(make, tmp_path):
    model = make()
    before = groups(model)
    assert any(len(names) > 1 for names in before)
    assert groups(copy.deepcopy(model)) == before
    assert groups(copy.copy(model)) == before
    for change in (
        lambda m: m.to("float64"),
        lambda m: m.float().half().float(),
        lambda m: m.load_state_dict(other_state(m)),
        lambda m: m.load_state_dict(other_state(m, 2.0), assign=True),
        lambda m: m.apply(lambda part: None),
        lambda m: m.requires_grad_(False).requires_grad_(),
        lambda m: mg.func.functional_call(m, dict(m.named_parameters()), mg.ones(2, 3)),
    ):
        change(model)
        assert groups(model) == before
    mg.save_file(model.state_dict(), tmp_path / "model.safetensors")
    for assign in (False, True):
        twin = make()
        twin.load_state_dict(mg.load_file(tmp_path / "model.safetensors"), assign=assign)
        assert groups(twin) == before
        assert_state_is(twin, model.state_dict())


@every_model
@pytest.mark.parametrize("assign", [False, True])
def test_a_state_with_two_values_for_one_tensor_is_refused(make, assign):
    model = make()
    for names in groups(model):
        for name in names[1:]:
            state = other_state(model)
            state[name] = state[name] + 1
            before = {key: x.array.copy() for key, x in model.state_dict().items()}
            with pytest.raises(StateError, match=rf"{names[0]} and {name} are one tensor in .* different"):
                model.load_state_dict(state, assign=assign)
            assert_state_is(model, before)  # everything is checked before anything changes


def test_loading_nan_into_a_tied_parameter():
    model = Tied()
    model.load_state_dict(other_state(model, np.nan))
    assert np.isnan(model.head.weight.array).all()


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("name", ["embedding.weight", "head.weight"])
def test_loading_needs_only_one_name_of_a_tied_parameter(name, assign):
    model = Tied()
    result = model.load_state_dict({name: np.full((4, 3), 2.0, "f4")}, strict=False, assign=assign)
    assert len(result.missing_keys) == 1
    assert model.head.weight is model.embedding.weight
    assert (model.head.weight.array == 2).all()
    assert model.num_parameters() == 12


@every_model
def test_functional_call_refuses_two_tensors_for_one_parameter(make):
    model = make().eval()
    x = mg.ones(2, 3)
    for names in groups(model):
        a, b = (mg.ones_like(model.state_dict()[names[0]]) for _ in range(2))
        for name in names[1:]:
            expected = mg.func.functional_call(model, {names[0]: a}, x)
            same = mg.func.functional_call(model, {names[0]: a, name: a}, x)
            np.testing.assert_array_equal(same.array, expected.array)
            with pytest.raises(OptionError, match=rf"{names[0]} and {name} are one parameter .* two tensors"):
                mg.func.functional_call(model, {names[0]: a, name: b}, x)
    np.testing.assert_array_equal(
        mg.func.functional_call(model, model.state_dict(), x).array, model(x).array
    )  # the tensors of the state dict share memory


def test_functional_call_of_untied_weights():
    model = Tied()
    x = mg.ones(2, 3)
    values = {"embedding.weight": mg.zeros(4, 3), "head.weight": mg.ones(4, 3)}
    untied = mg.func.functional_call(model, values, x, tie_weights=False)
    np.testing.assert_array_equal(untied.array, np.full((2, 4), 3))
    twice = nn.Sequential(*[nn.Linear(3, 3)] * 2)  # one attribute has two paths
    values = {"0.weight": mg.zeros(3, 3), "1.weight": mg.ones(3, 3)}
    with pytest.raises(OptionError, match=r"0\.weight and 1\.weight are one attribute"):
        mg.func.functional_call(twice, values, x, tie_weights=False)


def test_functional_call_takes_parameters_and_buffers():
    model = repeated().eval()
    x = mg.ones(2, 3)
    parts = dict(model.named_parameters()), dict(model.named_buffers())
    np.testing.assert_array_equal(mg.func.functional_call(model, parts, x).array, model(x).array)
    with pytest.raises(OptionError, match="in more than one dictionary"):
        mg.func.functional_call(model, (parts[0], parts[0]), x)


@every_model
def test_func_grad_over_a_tied_model_matches_backward(make):
    model = make().eval()
    x = mg.ones(2, 3)
    model(x).square().sum().backward()
    loss = lambda parameters: mg.func.functional_call(model, parameters, x).square().sum()
    gradients = mg.func.grad(loss)(dict(model.named_parameters()))
    for name, p in model.named_parameters():
        np.testing.assert_allclose(gradients[name].array, p.grad.array, rtol=1e-6, err_msg=name)


@every_model
def test_an_optimizer_steps_a_shared_parameter_once(make):
    model = make().eval()
    optimizer = optim.SGD(model.parameters(), lr=0.25)
    model(mg.ones(2, 3)).sum().backward()
    expected = [p.array - 0.25 * p.grad.array for p in model.parameters()]
    optimizer.step()
    for p, wanted in zip(model.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.array, wanted, rtol=1e-6)
    with pytest.raises(OptionError, match="more than once"):
        optim.SGD(model.named_parameters(remove_duplicate=False), lr=0.1)


def test_hooks_of_a_shared_module_run_at_each_of_its_places():
    layer = nn.Linear(2, 2)
    seen = []
    model = nn.Sequential(layer, nn.ReLU(), layer)
    layer.register_forward_pre_hook(lambda m, args: seen.append("before"))
    layer.register_forward_hook(lambda m, args, out: seen.append("after"))
    layer.register_full_backward_hook(lambda m, inputs, outputs: seen.append("backward"))
    model(mg.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == ["before", "after"] * 2 + ["backward"] * 2


@every_model
def test_weight_averaging_keeps_ties(make):
    model = make()
    average = MovingAverage(model, 0.5)
    model.load_state_dict(other_state(model, 1.0))
    average.update(10)
    with average.in_model():
        averaged = {name: x.array.copy() for name, x in model.state_dict().items()}
    model.load_state_dict(average.state_dict())  # equal values under the names of one tensor
    assert_state_is(model, averaged)
    model.load_state_dict(mean_of([model.state_dict(), other_state(model, 1.0)]))


def test_changing_a_shallow_copy_keeps_the_original_members():
    layer = nn.Linear(2, 2)
    twin = copy.copy(layer)
    assert twin.weight is layer.weight
    del twin.bias
    twin.register_buffer("scale", mg.ones(1))
    assert list(layer.state_dict()) == ["weight", "bias"]
    assert list(twin.state_dict()) == ["weight", "scale"]
