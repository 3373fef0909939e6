"""Lists and dictionaries of modules and parameters; finding modules by path; hooks before forward."""

from collections import OrderedDict

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.core.errors import DtypeError, OptionError, RangeError, StateError


class Add(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return x + self.n

    def extra_repr(self):
        return f"n={self.n}"


def added(modules):
    return [module.n for module in modules]


def test_sequential_takes_names_from_a_dict():
    model = nn.Sequential(OrderedDict(first=nn.Linear(2, 3), act=nn.ReLU(), last=nn.Linear(3, 1)))
    assert list(model.state_dict()) == ["first.weight", "first.bias", "last.weight", "last.bias"]
    assert model.act is model[1]
    assert list(dict(model[1:].named_children())) == ["act", "last"]
    assert model(mg.ones(4, 2)).shape == (4, 1)


@pytest.mark.parametrize("kind", [nn.ModuleList, lambda modules: nn.Sequential(*modules)])
def test_module_list_and_sequential_support_list_operations(kind):
    container = kind(map(Add, range(4)))
    container.insert(1, Add(10)).extend([Add(11)])
    assert added(container) == [0, 10, 1, 2, 3, 11]
    container[-1] = Add(12)
    del container[0], container[1:3]
    assert added(container) == [10, 3, 12]
    assert [name for name, _ in container.named_children()] == ["0", "1", "2"]
    assert added(container[1:].append(Add(5))) == [3, 12, 5]
    with pytest.raises(RangeError, match="index 3 is out of range"):
        container[3]


def test_module_dict():
    container = nn.ModuleDict({"a": Add(1), "b": Add(2)})
    container.update([("c", Add(3))])
    assert list(container) == list(container.keys()) == ["a", "b", "c"]
    assert "b" in container
    assert container.pop("b").n == 2
    assert [(name, module.n) for name, module in container.items()] == [("a", 1), ("c", 3)]
    assert added(container.values()) == added(container.children()) == [1, 3]
    assert len(container) == 2
    container.clear()
    assert not len(container)
    assert not list(container.modules())[1:]


def test_parameter_list_and_parameter_dict():
    model = nn.Module()
    model.rows = nn.ParameterList([mg.ones(2), nn.Parameter(np.zeros(3))])
    model.rows.append(np.ones((1, 2)))
    model.table = nn.ParameterDict({"left": mg.zeros(2)})
    model.table["right"] = mg.ones(2)
    assert [name for name, _ in model.named_parameters()] == [
        "rows.0", "rows.1", "rows.2", "table.left", "table.right",
    ]  # fmt: skip
    (model.rows[0] * model.table["right"]).sum().backward()
    assert model.rows[0].grad.tolist() == [1, 1]
    assert "(1): Parameter containing: [float64 of size 3]" in repr(model)


def test_modules_and_parameters_are_found_by_path():
    model = nn.Sequential(nn.ModuleDict({"a": nn.Linear(1, 1)}))
    assert model.get_submodule("") is model
    assert model.get_submodule("0.a") is model[0]["a"]
    assert model.get_parameter("0.a.weight") is model[0]["a"].weight
    model.register_buffer("table", mg.ones(1))
    assert model.get_buffer("table") is model.table
    with pytest.raises(StateError, match=r"no module '0\.b': there is no 'b'\.\nSubmodules of ModuleDict: a"):
        model.get_submodule("0.b")
    with pytest.raises(StateError, match="no parameter 'scale'"):
        model.get_parameter("0.a.scale")


def test_recurse_false_lists_only_direct_members():
    model = nn.Sequential(nn.Linear(1, 1))
    model.register_parameter("scale", nn.Parameter(np.ones(1)))
    model.register_buffer("table", mg.ones(1))
    assert [name for name, _ in model.named_parameters(recurse=False)] == ["scale"]
    assert [name for name, _ in model.named_buffers("x", recurse=False)] == ["x.table"]
    assert len(list(model.parameters())) == 3


WRONG_NAMES = {
    "a dot": lambda m: m.register_parameter("a.b", None),
    "nothing": lambda m: m.register_buffer("", mg.ones(1)),
    "taken": lambda m: m.register_buffer("forward", mg.ones(1)),
    "a parameter's": lambda m: m.register_buffer("weight", mg.ones(1)),
    "a module's": lambda m: m.add_module("weight", nn.ReLU()),
}


@pytest.mark.parametrize("register", WRONG_NAMES.values(), ids=list(WRONG_NAMES))
def test_invalid_or_taken_names_are_rejected(register):
    with pytest.raises(OptionError, match="name"):
        register(nn.Linear(1, 1))


def test_registering_a_plain_tensor_as_parameter_raises():
    with pytest.raises(DtypeError, match=r"nn\.Parameter"):
        nn.Module().register_parameter("w", mg.ones(1))


def test_hooks_before_forward_see_and_replace_the_inputs():
    layer = Add(1)
    seen = []
    look = layer.register_forward_pre_hook(lambda module, inputs: seen.append((module, inputs)))
    double = layer.register_forward_pre_hook(lambda module, inputs: inputs[0] * 2)
    assert layer(3) == 7
    assert seen == [(layer, (3,))]
    double.remove()
    look.remove()
    assert layer(3) == 4


def test_modules_convert_by_dtype_keyword_and_tensor():
    model = nn.Linear(2, 2)
    assert model.to(mg.zeros(1, dtype="float64")).weight.dtype == mg.float64
    assert model.to(dtype="float32", device="cpu").weight.dtype == mg.float32
    assert model.half().weight.dtype == mg.float16
    with pytest.raises(DtypeError, match="floating"):
        model.to("int64")


def test_module_repr_shows_settings_and_children():
    class Both(Add):
        def __init__(self):
            super().__init__(2)
            self.inner = Add(1)

    assert repr(Both()) == "Both(\n  n=2\n  (inner): Add(n=1)\n)"
