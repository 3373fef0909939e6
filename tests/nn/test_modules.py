"""Modules: names, state, modes, sharing, copies."""

import copy
import inspect
import pickle
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.core.errors import DtypeError, OptionError, ShapeError, StateError
from minigrad.nn import functional as F


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.rest = nn.ModuleList([nn.LayerNorm(3), nn.Dropout(0.5)])
        self.scale = nn.Parameter(np.ones(3, np.float32))
        self.register_buffer("table", mg.arange(3.0))
        self.register_buffer("scratch", mg.zeros(1), persistent=False)
        self.plain = mg.zeros(4)

    def forward(self, x):
        for layer in self.rest:
            x = layer(x) if x.shape[-1] == 3 else layer(self.first(x))
        return x * self.scale + self.table


def names(pairs):
    return [name for name, _ in pairs]


# ---------------------------------------------------------------- names


def test_parameters_buffers_and_modules_are_named_by_their_paths():
    block = Block()
    inner = ["first.weight", "first.bias", "rest.0.weight", "rest.0.bias"]
    assert names(block.named_parameters()) == ["scale", *inner]
    assert names(block.named_buffers()) == ["table", "scratch"]
    assert names(block.named_modules()) == ["", "first", "rest", "rest.0", "rest.1"]
    assert names(block.named_parameters("model")) == [f"model.{n}" for n in names(block.named_parameters())]
    assert set(block.state_dict()) == {*names(block.named_parameters()), "table"}


def test_num_parameters_counts_each_number_once():
    block = Block()
    block.again = block.first
    assert block.num_parameters() == 3 + 6 + 3 + 3 + 3


BEFORE_INIT = {
    "a layer": lambda m: setattr(m, "part", nn.Linear(1, 1)),
    "a parameter": lambda m: setattr(m, "part", nn.Parameter(mg.ones(1))),
    "a buffer": lambda m: m.register_buffer("part", mg.ones(1)),
    "add_module": lambda m: m.add_module("part", nn.Linear(1, 1)),
    "parameters": lambda m: list(m.parameters()),
}


@pytest.mark.parametrize("use", BEFORE_INIT.values(), ids=list(BEFORE_INIT))
def test_a_module_needs_init_before_it_has_parts_or_is_used(use):
    class Forgetful(nn.Module):
        def __init__(self):
            use(self)

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\) of Forgetful has not been called\.\n"):
        Forgetful()


@pytest.mark.parametrize("value", [3, "name", [1, 2], None, np.ones(2), mg.ones(2)])
def test_other_attributes_may_be_set_before_init(value):
    class Early(nn.Module):
        def __init__(self):
            self.early = value
            super().__init__()
            self.layer = nn.Linear(1, 1)

    early = Early()
    assert early.early is value
    assert names(early.named_parameters()) == ["layer.weight", "layer.bias"]


def test_assigning_again_replaces_in_place_and_deleting_forgets():
    block = Block()
    order = names(block.named_parameters())
    block.scale = nn.Parameter(np.zeros(3, np.float32))
    assert names(block.named_parameters()) == order
    block.first = nn.Linear(2, 3, bias=False)
    assert names(block.named_parameters()) == [n for n in order if n != "first.bias"]
    del block.first
    assert "first.weight" not in block.state_dict()
    assert not hasattr(block, "first")


def test_assigning_keeps_buffers_and_may_unset_parameters():
    block = Block()
    block.table = mg.ones(3)
    assert "table" in block.state_dict()
    block.scale = None
    assert "scale" not in block.state_dict()
    with pytest.raises(DtypeError, match=r"nn\.Parameter"):
        block.scale = mg.ones(3)


def test_a_plain_attribute_may_become_a_parameter_and_back():
    block = Block()
    block.plain = nn.Parameter(np.zeros(1))
    assert "plain" in block.state_dict()
    del block.plain
    block.plain = 3
    assert "plain" not in block.state_dict()
    assert block.plain == 3


NOT_OF_ITS_KIND = {
    "a parameter": ("scale", [mg.ones(3), np.ones(3), np.float32(1), 3, "a", [1.0], nn.LayerNorm(3)]),
    "a buffer": ("table", [np.ones(3), 3, [1.0]]),
    "a module": ("first", [np.ones(3), 3, lambda x: x, mg.ones(3)]),
}
WAYS_TO_ASSIGN = {
    "attribute": setattr,
    "dictionary": lambda m, name, value: members_of(m, name).update({name: value}),
    "register": lambda m, name, value: register_of(m, name)(name, value),
}


def members_of(module, name):
    return next(d for d in (module._parameters, module._buffers, module._modules) if name in d)


def register_of(module, name):
    kind = module._kinds[name]
    return {"module": module.add_module}.get(kind) or getattr(module, f"register_{kind}")


@pytest.mark.parametrize("assign", WAYS_TO_ASSIGN.values(), ids=list(WAYS_TO_ASSIGN))
@pytest.mark.parametrize(("name", "values"), NOT_OF_ITS_KIND.values(), ids=list(NOT_OF_ITS_KIND))
def test_a_name_keeps_its_kind(name, values, assign):
    block = Block()
    before = getattr(block, name)
    state = list(block.state_dict())
    for value in values:
        with pytest.raises(DtypeError, match=f"'{name}' is a .* of Block, and cannot be set to"):
            assign(block, name, value)
    assert getattr(block, name) is before
    assert list(block.state_dict()) == state
    assign(block, name, None)
    assert getattr(block, name) is members_of(block, name)[name] is None
    assert not any(key.startswith(name) for key in block.state_dict())
    assign(block, name, before)
    assert sorted(block.state_dict()) == sorted(state)


def test_registering_asks_for_the_kind_too():
    for register, value in (("register_buffer", np.ones(1)), ("add_module", 3), ("register_parameter", 3)):
        with pytest.raises(DtypeError, match="'new' is a"):
            getattr(nn.Module(), register)("new", value)


def test_a_property_of_a_class_is_set_by_its_setter():
    class Doubled(nn.Module):
        @property
        def size(self):
            return self._size

        @size.setter
        def size(self, value):
            self._size = 2 * value

    module = Doubled()
    module.size = 3
    assert module.size == 6


def test_what_is_written_to_parameters_is_the_attribute():
    layer = nn.Linear(2, 3)
    weight = nn.Parameter(np.ones((3, 2), np.float32))
    layer._parameters["weight"] = weight
    assert layer.weight is vars(layer)["weight"] is layer._parameters["weight"] is weight
    assert names(layer.named_parameters()) == ["weight", "bias"]
    np.testing.assert_allclose(layer(mg.ones(1, 2)).array, 2 + layer.bias.array[None], rtol=1e-6)
    layer._parameters.update(scale=nn.Parameter(np.ones(1)))
    assert layer.scale.requires_grad
    assert list(layer._parameters) == ["weight", "bias", "scale"]


@pytest.mark.parametrize(
    "assign",
    [
        lambda m, p: setattr(m, "weight", p),
        lambda m, p: vars(m).update(weight=p),
        lambda m, p: m._parameters.update(weight=p),
        lambda m, p: m.register_parameter("weight", p),
    ],
    ids=["attribute", "vars", "_parameters", "register"],
)
def test_a_parameter_has_one_value_however_it_is_assigned(assign):
    layer = nn.Linear(2, 3)
    for value in (nn.Parameter(np.ones((3, 2))), None, nn.Parameter(np.zeros((3, 2)))):
        assign(layer, value)
        assert layer.weight is vars(layer)["weight"] is value
        assert layer._parameters.get("weight") is value
        assert ("weight" in dict(layer.named_parameters())) == ("weight" in layer.state_dict())
        assert dict(layer.named_parameters()).get("weight") is value


@pytest.mark.parametrize(
    "delete",
    [
        lambda m: delattr(m, "weight"),
        lambda m: vars(m).pop("weight"),
        lambda m: m._parameters.pop("weight"),
        lambda m: m._parameters.__delitem__("weight"),
    ],
    ids=["attribute", "vars", "pop", "del"],
)
def test_a_deleted_parameter_is_gone_everywhere(delete):
    layer = nn.Linear(2, 3)
    delete(layer)
    assert not hasattr(layer, "weight")
    assert list(layer._parameters) == names(layer.named_parameters()) == list(layer.state_dict()) == ["bias"]
    with pytest.raises(KeyError):
        del layer._parameters["weight"]
    layer.weight = mg.ones(3, 2)  # now a plain tensor
    assert len(layer._parameters) == 1


def test_buffers_and_submodules_are_attributes_too():
    block = Block()
    block._buffers["scratch"] = mg.ones(1)  # still not part of the state
    block._buffers["mask"] = mg.ones(2)
    block._modules["first"] = nn.Linear(2, 3, bias=False)
    block._modules["last"] = nn.ReLU()
    assert block.mask.tolist() == [1, 1]
    assert names(block.named_buffers()) == list(block._buffers) == ["table", "scratch", "mask"]
    assert {"table", "mask"} == set(block.state_dict()) - set(names(block.named_parameters()))
    assert names(block.named_children()) == list(block._modules) == ["first", "rest", "last"]
    assert block.first.bias is None
    del block._buffers["table"], block._modules["last"]
    assert not hasattr(block, "table")
    assert not hasattr(block, "last")
    assert repr(block._parameters) == repr({"scale": block.scale})


def test_what_does_not_belong_there_is_refused():
    block = Block()
    with pytest.raises(DtypeError, match=r"nn\.Parameter"):
        block._parameters["scale"] = mg.ones(3)
    for members, name in ((block._parameters, "table"), (block._buffers, "scale"), (block._modules, "plain")):
        with pytest.raises(OptionError, match=f"already has an attribute '{name}'"):
            members[name] = None
        with pytest.raises(KeyError):
            members[name]


def test_a_hook_replaces_a_parameter_by_what_it_computes():
    """As torch.nn.utils.weight_norm does it."""
    layer = nn.Linear(2, 1, bias=False)
    direction = nn.Parameter(np.array([[3.0, 4.0]]))
    del layer._parameters["weight"]
    layer.register_parameter("direction", direction)
    layer.register_forward_pre_hook(lambda m, _: setattr(m, "weight", m.direction / m.direction.norm()))
    assert layer(mg.tensor([[1.0, 2.0]], dtype="float64")).item() == pytest.approx(2.2)
    assert names(layer.named_parameters()) == ["direction"]
    layer._parameters["direction"] = nn.Parameter(np.array([[0.0, 2.0]]))
    assert layer(mg.tensor([[1.0, 2.0]], dtype="float64")).item() == 2


def test_a_module_may_override_how_its_copies_are_set():
    class Newer(nn.Linear):
        def __setstate__(self, state):
            super().__setstate__(state)
            self.added = 1

    assert copy.deepcopy(nn.Sequential(Newer(1, 1)))[0].added == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_has_the_same_members_and_shares_none(copied):
    block = Block()
    block._parameters["scale"] = None
    block._parameters["scale"] = nn.Parameter(np.full(3, 2.0))
    block.register_parameter("shift", None)
    twin = copied(block)
    for kind in ("_parameters", "_buffers", "_modules"):
        assert list(getattr(twin, kind)) == list(getattr(block, kind))
    assert twin.scale.tolist() == [2, 2, 2]
    twin._parameters["scale"] = nn.Parameter(np.zeros(3))
    twin.shift = nn.Parameter(np.zeros(3))
    assert block.scale.tolist() == [2, 2, 2]
    assert block.shift is None
    assert "scratch" not in twin.state_dict()


def test_a_parameter_may_be_a_buffer():
    module = nn.Module()
    tensor = nn.Parameter(np.ones(1))
    module.register_buffer("fixed", tensor)
    assert list(module.parameters()) == []
    assert list(module.buffers()) == [tensor]
    module.fixed = tensor  # assigned, it is a parameter again
    assert list(module.parameters()) == [tensor]


# ---------------------------------------------------------------- containers


def test_module_lists_and_sequentials_are_lists():
    layers = [nn.Linear(1, 1) for _ in range(3)]
    for container in (nn.ModuleList(layers), nn.Sequential(*layers)):
        assert len(container) == 3
        assert list(container) == layers
        assert container[-1] is layers[-1]
        assert list(container[1:]) == layers[1:]
        assert type(container[1:]) is type(container)
        assert names(container.named_children()) == ["0", "1", "2"]
    assert len(nn.ModuleList(layers).append(nn.ReLU())) == 4


def test_a_sequential_runs_in_order():
    double = lambda x: x * 2
    plus = lambda x: x + 1
    wrap = lambda f: type("Wrapped", (nn.Module,), {"forward": staticmethod(f)})()
    assert nn.Sequential(wrap(double), wrap(plus))(3) == 7
    assert nn.Sequential(wrap(plus), wrap(double))(3) == 8


def test_a_module_without_forward_says_so():
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        nn.Module()(1)


def test_forward_hooks_see_and_replace_the_output():
    layer = nn.ReLU()
    seen = []
    handle = layer.register_forward_hook(
        lambda module, inputs, output: seen.append((module, inputs)) or output * 2
    )
    x = mg.tensor([-1.0, 3.0])
    assert layer(x).tolist() == [0, 6]
    assert seen[0][0] is layer
    assert seen[0][1][0] is x
    handle.remove()
    assert layer(x).tolist() == [0, 3]


def test_an_always_called_hook_runs_after_a_failed_forward():
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    layer = Failing()
    seen = []
    layer.register_forward_hook(lambda *args: seen.append("usual"))
    layer.register_forward_hook(lambda m, args, output: seen.append((args, output)), always_call=True)
    with pytest.raises(ValueError, match="no"):
        layer(1)
    assert seen == [((1,), None)]


def test_an_always_called_hook_runs_once_after_a_failed_hook():
    def fail(*args):
        raise ValueError("no")

    for register, expected in (
        (nn.ReLU.register_forward_pre_hook, [("first", None), ("last", None)]),
        (nn.ReLU.register_forward_hook, [("first", 2), ("last", 2)]),
    ):
        layer = nn.ReLU()
        seen = []
        layer.register_forward_hook(lambda m, args, y: seen.append(("first", y)), always_call=True)  # noqa: B023
        register(layer, fail)
        layer.register_forward_hook(lambda m, args, y: seen.append(("last", y)), always_call=True)  # noqa: B023
        with pytest.raises(ValueError, match="no"):
            layer(mg.tensor(2.0))
        assert seen == expected


def test_an_error_of_an_always_called_hook_hides_no_other():
    layer = nn.Linear(2, 2)
    seen = []
    layer.register_forward_hook(lambda m, args, output: output.shape, always_call=True)
    layer.register_forward_hook(lambda *args: seen.append("after it"), always_call=True)
    with (
        pytest.warns(UserWarning, match=r"always_call=True raised AttributeError"),
        pytest.raises(ShapeError),
    ):
        layer(mg.ones(3))
    assert seen == ["after it"]


# ---------------------------------------------------------------- state


def test_a_state_goes_from_model_to_model():
    source, target = Block(), Block()
    missing, unknown = target.load_state_dict(source.state_dict())
    assert (missing, unknown) == ([], [])
    for name, value in source.state_dict().items():
        np.testing.assert_array_equal(target.state_dict()[name].array, value.array)
        assert not np.shares_memory(target.state_dict()[name].array, value.array)


def test_a_state_dict_shares_memory_outside_the_graph():
    block = Block()
    state = block.state_dict()
    assert np.shares_memory(state["scale"].array, block.scale.array)
    assert not state["scale"].requires_grad


BAD_STATES = {
    "missing": (lambda s: s.pop("scale"), StateError, "missing scale, unexpected none"),
    "unknown": (lambda s: s.update(other=np.zeros(1)), StateError, "missing none, unexpected other"),
    "shape": (lambda s: s.update(scale=np.zeros(4)), ShapeError, r"scale is float32\[3\] .* float64\[4\]"),
    "dtype": (lambda s: s.update(scale=np.zeros(3, complex)), ShapeError, "complex"),
}


@pytest.mark.parametrize(("spoil", "error", "message"), BAD_STATES.values(), ids=list(BAD_STATES))
def test_a_state_that_does_not_fit_changes_nothing(spoil, error, message):
    block = Block()
    before = {name: value.array.copy() for name, value in block.state_dict().items()}
    state = {name: np.full(value.shape, 7.0) for name, value in before.items()}
    spoil(state)
    with pytest.raises(error, match=message):
        block.load_state_dict(state)
    for name, value in block.state_dict().items():
        np.testing.assert_array_equal(value.array, before[name])


def test_without_strict_the_rest_is_loaded_and_named():
    block = Block()
    result = block.load_state_dict({"scale": np.full(3, 7.0), "other": np.zeros(1)}, strict=False)
    assert result == (["table", "first.weight", "first.bias", "rest.0.weight", "rest.0.bias"], ["other"])
    assert block.scale.tolist() == [7, 7, 7]
    assert repr(block.load_state_dict(block.state_dict())) == "<All keys matched successfully>"


def test_assigned_values_become_the_parameters_and_buffers():
    block = Block()
    state = {name: mg.ones(*x.shape, dtype="float64") for name, x in block.state_dict().items()}
    block.load_state_dict(state, assign=True)
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in block.parameters())
    assert block.first.weight.array is state["first.weight"].array
    assert block.table.dtype == mg.float64


@pytest.mark.parametrize("state", [3, None, [("scale", 1)]])
def test_a_state_is_a_dictionary(state):
    with pytest.raises(DtypeError, match="a state must be a dictionary"):
        Block().load_state_dict(state)


def test_a_float64_state_is_cast_to_the_models_dtype():
    block = Block()
    block.load_state_dict({n: v.array.astype(np.float64) for n, v in block.state_dict().items()})
    assert block.scale.dtype == mg.float32


# ---------------------------------------------------------------- sharing and copies


def test_tied_parameters_have_two_names_in_the_state():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(4, 3)
            self.head = nn.Linear(3, 4, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids))

    model = Tied()
    assert names(model.named_parameters()) == ["embed.weight"]
    assert set(model.state_dict()) == {"embed.weight", "head.weight"}
    model(np.array([1])).sum().backward()
    both = model.embed.weight.grad.array
    assert model.head.weight.grad is model.embed.weight.grad
    np.testing.assert_allclose(both[0], model.embed.weight.array[1], rtol=1e-6)  # from the head alone
    model.load_state_dict({name: np.full((4, 3), 2.0) for name in model.state_dict()})
    assert model.head.weight is model.embed.weight
    twin = copy.deepcopy(model)
    assert twin.head.weight is twin.embed.weight


def test_a_module_in_two_places_is_listed_once_and_saved_twice():
    layer = nn.Linear(1, 1)
    model = nn.ModuleList([layer, layer])
    assert names(model.named_parameters()) == ["0.weight", "0.bias"]
    assert set(model.state_dict()) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert names(model.named_modules()) == ["", "0"]


def test_a_deep_copy_is_a_model_of_its_own():
    block = Block()
    block(mg.ones(1, 2)).sum().backward()
    twin = copy.deepcopy(block)
    assert names(twin.named_parameters()) == names(block.named_parameters())
    for (name, p), (_, q) in zip(block.named_parameters(), twin.named_parameters(), strict=True):
        assert twin.scale is dict(twin.named_parameters())["scale"]
        assert isinstance(q, nn.Parameter)
        assert q.requires_grad
        assert not np.shares_memory(p.array, q.array), name
        assert p.grad is not None
        assert q.grad is None
    with mg.no_grad():
        twin.scale.zero_()
    assert block.scale.tolist() == [1, 1, 1]


def test_a_computed_tensor_is_not_deep_copied():
    with pytest.raises(mg.GraphError, match="only a leaf"):
        copy.deepcopy(mg.ones(1, requires_grad=True) * 2)


# ---------------------------------------------------------------- modes


def test_train_and_eval_reach_every_module():
    block = Block()
    x = mg.ones(4, 2)
    assert (block(x).array != block(x).array).any()
    assert not block.eval().rest[1].training
    np.testing.assert_array_equal(block(x).array, block(x).array)
    assert block.train().rest[1].training


class Frozen(nn.Linear):
    def train(self, mode=True):
        return super().train(False)


class WithTeacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = nn.Parameter(mg.ones(1))
        self.teacher = nn.Linear(1, 1)

    def state_dict(self, *args, **kwargs):
        state = super().state_dict(*args, **kwargs)
        for key in [key for key in state if "teacher" in key]:
            del state[key]
        return state


class Hidden(nn.Linear):
    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        return iter(())


class OnlyBias(nn.Linear):
    def named_parameters(self, *args, **kwargs):
        return ((name, p) for name, p in super().named_parameters(*args, **kwargs) if "bias" in name)


class WithoutBuffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", mg.ones(1))

    def named_buffers(self, *args, **kwargs):
        return iter(())


class Renamed(nn.Module):
    def __init__(self):
        super().__init__()
        self.new = nn.Parameter(mg.ones(1))
        self.double = 0.0

    def _load_from_state_dict(self, state_dict, prefix, *args):
        if prefix + "old" in state_dict:
            state_dict[prefix + "new"] = state_dict.pop(prefix + "old")
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.double = 2 * self.new.item()


class Lenient(nn.Linear):
    def _load_from_state_dict(self, state, prefix, metadata, strict, missing_keys, unexpected_keys, errors):
        super()._load_from_state_dict(state, prefix, metadata, strict, missing_keys, unexpected_keys, errors)
        missing_keys.clear()


class Saved(nn.Module):
    def _save_to_state_dict(self, destination, prefix, keep_vars):
        destination[prefix + "packed"] = 1


class Counting(nn.Module):
    count = 0

    def get_extra_state(self):
        return {"count": self.count}

    def set_extra_state(self, state):
        self.count = state["count"]


class PlainTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = mg.ones(1)

    def _apply(self, fn):
        super()._apply(fn)
        self.table = fn(self.table)
        return self


class Untouched(nn.Linear):
    def apply(self, function):
        return self


class Named(nn.Linear):
    def _get_name(self):
        return "MyLinear"


def loaded(model, state, **settings):
    model.load_state_dict(state, **settings)
    return model


def applied(model):
    visited = []
    model.apply(lambda module: visited.append(type(module).__name__))
    return visited


COUNTED = Counting()
COUNTED.count = 3
OVERRIDDEN = {  # what each method changes in a model that contains the module
    "train": (Frozen(1, 1), lambda m: (m.train().training, m[0].training), (True, False)),
    "state_dict": (WithTeacher(), lambda m: list(m.state_dict()), ["0.own"]),
    "_save_to_state_dict": (Saved(), lambda m: m.state_dict(), {"0.packed": 1}),
    "named_modules": (Hidden(1, 1), lambda m: [*m.modules(), *m.parameters()][1:], []),
    "apply": (Untouched(1, 1), applied, ["Sequential"]),
    "_apply": (PlainTensor(), lambda m: (m.double()[0].table.dtype, m.to("float16")[0].table.dtype),
               (mg.float64, mg.float16)),
    "_load_from_state_dict": (
        Renamed(), lambda m: (loaded(m, {"0.old": mg.full((1,), 5.0)})[0].new.item(), m[0].double), (5, 10)),
    "missing_keys": (Lenient(1, 1), lambda m: m.load_state_dict({}), ([], [])),
    "get_extra_state": (COUNTED, lambda m: m.state_dict(), {"0._extra_state": {"count": 3}}),
    "set_extra_state": (Counting(), lambda m: loaded(m, {"0._extra_state": {"count": 7}})[0].count, 7),
    "_get_name": (Named(1, 1), lambda m: "MyLinear(in_features=1" in repr(m), True),
    "named_parameters": (OnlyBias(1, 1), lambda m: len(list(m[0].parameters())), 1),
    "named_buffers": (WithoutBuffers(), lambda m: list(m[0].buffers()), []),
}  # fmt: skip


@pytest.mark.parametrize(("module", "observe", "expected"), OVERRIDDEN.values(), ids=list(OVERRIDDEN))
def test_a_model_calls_the_methods_that_its_modules_override(module, observe, expected):
    assert observe(nn.Sequential(module)) == expected


def test_an_error_that_a_module_reports_while_loading_is_raised():
    class Picky(nn.Linear):
        def _load_from_state_dict(self, *args):
            super()._load_from_state_dict(*args)
            args[-1].append("the checkpoint is from another task.")

    model = nn.Sequential(Picky(1, 1))
    with pytest.raises(StateError, match="Sequential: the checkpoint is from another task"):
        model.load_state_dict({name: x + 1 for name, x in model.state_dict().items()})


def test_freezing_and_zeroing_gradients():
    block = Block()
    block.requires_grad_(False)
    assert not block(mg.ones(1, 2)).requires_grad
    block.requires_grad_(True)(mg.ones(1, 2)).sum().backward()
    block.zero_grad(set_to_none=False)
    assert block.scale.grad.tolist() == [0, 0, 0]
    block.zero_grad()
    assert block.scale.grad is None


def test_gradients_with_a_graph_are_zeroed_too():
    layer = nn.Linear(1, 1)
    (layer(mg.ones(1, 1)) ** 2).sum().backward(create_graph=True)
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0]]
    assert not layer.weight.grad.requires_grad


def test_converting_a_model_keeps_its_parameters_and_integers():
    block = Block()
    block.register_buffer("ids", mg.arange(3))
    scale = block.scale
    block.double()
    assert block.scale is scale
    assert {str(v.dtype) for v in block.state_dict().values()} == {"float64", "int64"}
    assert block(mg.ones(1, 2)).dtype == mg.float64
    assert block.float().to("cpu").scale.dtype == mg.float32


def test_a_shared_module_is_one_child_that_runs_twice():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, nn.ReLU(), layer)
    visited = []
    model.apply(visited.append)
    assert visited == [*model.children(), model] == [layer, model[1], model]
    assert names(model.named_children()) == ["0", "1"]
    assert names(model.named_modules(remove_duplicate=False)) == ["", "0", "1", "2"]
    assert len(list(model.named_parameters(remove_duplicate=False))) == 4
    x = mg.ones(1, 2)
    np.testing.assert_array_equal(model(x).array, layer(layer(x).relu()).array)


def test_zero_grad_in_place_zeroes_the_same_tensor():
    layer = nn.Linear(1, 1)
    layer(mg.ones(1, 1)).sum().backward()
    grad = layer.weight.grad
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad is grad
    assert grad.tolist() == [[0]]


def test_converting_a_model_converts_its_gradients():
    layer = nn.Linear(1, 1)
    layer(mg.ones(1, 1)).sum().backward()
    layer.double()
    assert layer.weight.grad.tolist() == [[1]]
    assert layer.weight.grad.dtype == mg.float64


def test_apply_visits_children_first():
    visited = []
    Block().apply(lambda module: visited.append(type(module).__name__))
    assert visited == ["Linear", "LayerNorm", "Dropout", "ModuleList", "Block"]


def test_a_model_prints_as_a_tree():
    assert repr(Block()) == (
        "Block(\n  (first): Linear(in_features=2, out_features=3, bias=True)\n  (rest): ModuleList(\n"
        "    (0): LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)\n"
        "    (1): Dropout(p=0.5, inplace=False)\n  )\n)"
    )


# ---------------------------------------------------------------- layers


def test_dropout_keeps_the_expectation_and_is_off_in_evaluation():
    x = mg.ones(200, 100)
    y = F.dropout(x, 0.25)
    kept = y.array != 0
    assert abs(kept.mean() - 0.75) < 0.01
    np.testing.assert_allclose(y.array[kept], 1 / 0.75, rtol=1e-4)
    assert F.dropout(x, 0.25, training=False) is x
    assert nn.Dropout(0.25).eval()(x) is x
    assert not F.dropout(x, 1.0).array.any()


def test_gumbel_softmax_draws_hard_and_differentiates_soft():
    mg.manual_seed(0)
    logits = mg.tensor(np.log(np.tile([0.2, 0.3, 0.5], (5000, 1))), requires_grad=True)
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True)
    assert set(np.unique(hard.array)) == {0, 1}
    np.testing.assert_allclose(hard.array.mean(0), [0.2, 0.3, 0.5], atol=0.02)
    weights = mg.tensor([1.0, 2.0, 4.0], dtype="float64")
    (hard * weights).sum().backward()
    expected = logits.grad.array
    logits.grad = None
    mg.manual_seed(0)
    (F.gumbel_softmax(logits, tau=0.5) * weights).sum().backward()
    np.testing.assert_allclose(logits.grad.array, expected, atol=1e-12)
    with pytest.raises(OptionError, match="tau"):
        F.gumbel_softmax(logits, tau=0)


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_dropouts_p_is_a_probability(p):
    for make in (lambda: nn.Dropout(p), lambda: F.dropout(mg.ones(1), p)):
        with pytest.raises(OptionError, match="probability"):
            make()


def test_modules_are_made_where_a_tensor_is():
    x = mg.ones(2, dtype="float64")
    for device in (x.device, mg.device("cpu"), "cpu", None):
        assert nn.Linear(2, 2, device=device, dtype=x.dtype)(x).dtype == mg.float64
        assert mg.as_tensor([1.0], device=device).device == "cpu"


def test_losses_as_modules():
    logits = mg.tensor([[0.0, 0.0], [0.0, 1.0]])
    target = [1, 0]
    loss = nn.CrossEntropyLoss(ignore_index=0, reduction="sum")(logits, target)
    np.testing.assert_allclose(loss.item(), np.log(2), rtol=1e-6)


# ---------------------------------------------------------------- modules made from functions


def test_function_modules_take_arguments_by_name():
    x, classes = mg.tensor([[1.0, 2.0]]), mg.tensor([1])
    loss = nn.CrossEntropyLoss(label_smoothing=0.5)
    assert loss(target=classes, input=x).item() == F.cross_entropy(x, classes, label_smoothing=0.5).item()
    assert nn.LeakyReLU(0.5)(input=-x).tolist() == [[-0.5, -1]]
    assert str(inspect.signature(nn.LeakyReLU)) == "(negative_slope=0.01, inplace: bool = False)"
    with pytest.raises(TypeError, match=r"LeakyReLU\(\) got an unexpected keyword argument 'slope'"):
        nn.LeakyReLU(slope=0.5)
    with pytest.raises(TypeError, match=r"Threshold\(\): missing a required argument: 'value'"):
        nn.Threshold(1.0)
    with pytest.raises(TypeError, match=r"CrossEntropyLoss\.forward\(\): missing .*'target'"):
        loss(x)


def test_a_module_made_from_a_function_can_be_subclassed():
    class Leaky(nn.LeakyReLU):
        def __init__(self, slope=0.5):
            super().__init__(slope)

    class Convolution(nn.Conv1d):
        pass

    assert Leaky()(mg.tensor([-2.0])).tolist() == [-1]
    assert repr(Leaky()) == "Leaky(negative_slope=0.5)"
    assert str(inspect.signature(Leaky)) == "(slope=0.5)"
    assert Convolution(1, 2, 3)(mg.ones(1, 1, 3)).shape == (1, 2, 1)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_function_modules_are_copied_with_settings(copied):
    for module in (nn.Hardtanh(-2.0, 3.0), nn.MaxPool2d(2, ceil_mode=True), nn.ConstantPad1d(1, 2.0)):
        assert repr(copied(module)) == repr(module)
    loss = copied(nn.NLLLoss(weight=mg.tensor([1.0, 2.0]), reduction="sum"))
    assert loss.reduction == "sum"
    assert loss.state_dict()["weight"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (lambda: nn.Linear(3, 2), np.ones((2, 3))),
        (lambda: nn.Conv1d(3, 2, 1), np.ones((2, 3, 4))),
    ],
)
def test_float64_data_on_a_float32_model_warns(make, data):
    model = make()
    with pytest.warns(UserWarning, match=r"float64 data .*\n.*x\.float\(\)") as said:
        result = model(mg.tensor(data))
    assert result.dtype == "float64"
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(mg.tensor(data).float())
        model.double()(mg.tensor(data))


def test_float64_data_warns_once_at_the_users_line():
    class Model(nn.Sequential):
        pass

    model = Model(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(3):
            model(np.ones((2, 3)))
    assert len(said) == 1
    assert said[0].filename == __file__


@pytest.mark.parametrize("kind", ["hook", "pre_hook"])
def test_backward_hooks_run_in_the_order_of_registration(kind):
    layer, seen = nn.Linear(2, 2), []
    register = getattr(layer, f"register_full_backward_{kind}")
    register(lambda *args: seen.append("second"))
    register(lambda *args: seen.append("third"))
    register(lambda *args: seen.append("first"), prepend=True)
    layer(mg.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == ["first", "second", "third"]
