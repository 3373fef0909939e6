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


BEFORE_INIT = {
    "a layer": lambda m: setattr(m, "part", nn.Linear(1, 1)),
    "a parameter": lambda m: setattr(m, "part", nn.Parameter(mg.ones(1))),
    "a buffer": lambda m: m.register_buffer("part", mg.ones(1)),
    "add_module": lambda m: m.add_module("part", nn.Linear(1, 1)),
    "parameters": lambda m: list(m.parameters()),
}


@pytest.mark.parametrize("use", BEFORE_INIT.values(), ids=list(BEFORE_INIT))
def test_modules_require_super_init_before_use(use):
    class Forgetful(nn.Module):
        def __init__(self):
            use(self)

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\) of Forgetful has not been called\.\n"):
        Forgetful()


@pytest.mark.parametrize("value", [3, None, np.ones(2), mg.ones(2)], ids=repr)
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


NOT_OF_ITS_KIND = {
    "a parameter": ("scale", [mg.ones(3), 3, nn.LayerNorm(3)]),
    "a buffer": ("table", [np.ones(3), 3]),
    "a module": ("first", [np.ones(3), lambda x: x, mg.ones(3)]),
}
WAYS_TO_ASSIGN = {
    "attribute": setattr,
    "dictionary": lambda m, name, value: members_of(m, name).update({name: value}),
    "register": lambda m, name, value: REGISTER[m._kinds[name]](m, name, value),
}


def members_of(module, name):
    return next(d for d in (module._parameters, module._buffers, module._modules) if name in d)


@pytest.mark.parametrize("assign", WAYS_TO_ASSIGN.values(), ids=list(WAYS_TO_ASSIGN))
@pytest.mark.parametrize(("name", "values"), NOT_OF_ITS_KIND.values(), ids=list(NOT_OF_ITS_KIND))
def test_assigning_the_wrong_kind_to_a_member_raises(name, values, assign):
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


REGISTER = {
    "parameter": nn.Module.register_parameter,
    "buffer": nn.Module.register_buffer,
    "module": nn.Module.add_module,
}


def test_registering_the_wrong_kind_or_a_taken_name_raises():
    for kind, value in (("buffer", np.ones(1)), ("module", 3), ("parameter", 3)):
        with pytest.raises(DtypeError, match="'new' is a"):
            REGISTER[kind](nn.Module(), "new", value)
    block = Block()
    for members, name in ((block._parameters, "table"), (block._buffers, "scale"), (block._modules, "plain")):
        with pytest.raises(OptionError, match=f"already has an attribute '{name}'"):
            members[name] = None
        with pytest.raises(KeyError):
            members[name]


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
def test_every_way_to_assign_a_parameter_agrees(assign):
    layer = nn.Linear(2, 3)
    for value in (nn.Parameter(np.ones((3, 2))), None, nn.Parameter(np.zeros((3, 2)))):
        assign(layer, value)
        assert layer.weight is vars(layer)["weight"] is layer._parameters.get("weight") is value
        assert dict(layer.named_parameters()).get("weight") is value
        assert ("weight" in layer.state_dict()) == (value is not None)


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
    block._modules["last"] = nn.ReLU()
    block.table = mg.ones(3)
    assert block.mask.tolist() == [1, 1]
    assert names(block.named_buffers()) == list(block._buffers) == ["table", "scratch", "mask"]
    assert {"table", "mask"} == set(block.state_dict()) - set(names(block.named_parameters()))
    assert names(block.named_children()) == list(block._modules) == ["first", "rest", "last"]
    del block._buffers["table"], block._modules["last"]
    assert not hasattr(block, "table")
    assert not hasattr(block, "last")
    assert repr(block._parameters) == repr({"scale": block.scale})


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_has_the_same_members_and_shares_none(copied):
    block = Block()
    block._parameters["scale"] = None
    block._parameters["scale"] = nn.Parameter(np.full(3, 2.0))
    block.register_parameter("shift", None)
    block.scale.sum().backward()
    twin = copied(block.eval())
    assert not twin.rest[1].training
    for kind in ("_parameters", "_buffers", "_modules"):
        assert list(getattr(twin, kind)) == list(getattr(block, kind))
    for p, q in zip(block.parameters(), twin.parameters(), strict=True):
        assert isinstance(q, nn.Parameter)
        assert q.requires_grad
        assert q.grad is None
        assert q.tolist() == p.tolist()
        assert not np.shares_memory(p.array, q.array)
    twin._parameters["scale"] = twin.shift = nn.Parameter(np.zeros(3))
    assert block.scale.tolist() == [2, 2, 2]
    assert block.shift is None
    assert "scratch" not in twin.state_dict()


# ---------------------------------------------------------------- containers


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


@pytest.mark.parametrize("register", [nn.ReLU.register_forward_pre_hook, nn.ReLU.register_forward_hook])
def test_always_call_hooks_run_once_after_a_failure(register):
    def fail(*args):
        raise ValueError("no")

    layer = nn.ReLU()
    output = None if register is nn.ReLU.register_forward_pre_hook else 2
    seen = []
    layer.register_forward_hook(lambda m, args, y: seen.append(("first", y)), always_call=True)
    register(layer, fail)
    layer.register_forward_hook(lambda m, args, y: seen.append(("last", y)), always_call=True)
    with pytest.raises(ValueError, match="no"):
        layer(mg.tensor(2.0))
    assert seen == [("first", output), ("last", output)]


def test_errors_in_always_call_hooks_do_not_hide_others():
    layer = nn.Linear(2, 2)
    seen = []
    layer.register_forward_hook(lambda *args: seen.append("usual"))
    layer.register_forward_hook(lambda m, args, output: output.shape, always_call=True)
    layer.register_forward_hook(lambda *args: seen.append("after it"), always_call=True)
    with (
        pytest.warns(UserWarning, match=r"always_call=True raised AttributeError"),
        pytest.raises(ShapeError),
    ):
        layer(mg.ones(3))
    assert seen == ["after it"]


# ---------------------------------------------------------------- state


def test_load_state_dict_copies_or_assigns():
    source, target, third = Block(), Block(), Block()
    state = source.double().state_dict()
    assert np.shares_memory(state["scale"].array, source.scale.array)
    assert not state["scale"].requires_grad
    assert target.load_state_dict(state) == ([], [])
    assert repr(third.load_state_dict(state, assign=True)) == "<All keys matched successfully>"
    for model, dtype in ((target, mg.float32), (third, mg.float64)):
        assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in model.parameters())
        for name, value in model.state_dict().items():
            assert value.dtype == dtype
            assert (value.array is state[name].array) == (model is third)
            np.testing.assert_array_equal(value.array, state[name].array.astype(value.dtype))


BAD_STATES = {
    "missing": (lambda s: s.pop("scale"), StateError, "missing scale, unexpected none"),
    "unknown": (lambda s: s.update(other=np.zeros(1)), StateError, "missing none, unexpected other"),
    "shape": (lambda s: s.update(scale=np.zeros(4)), ShapeError, r"scale is float32\[3\] .* float64\[4\]"),
    "dtype": (lambda s: s.update(scale=np.zeros(3, complex)), ShapeError, "complex"),
    "a list": (lambda s: [*s.items()], DtypeError, "a state must be a dictionary"),
}


@pytest.mark.parametrize(("spoil", "error", "message"), BAD_STATES.values(), ids=list(BAD_STATES))
def test_loading_an_invalid_state_leaves_the_module_unchanged(spoil, error, message):
    block = Block()
    before = {name: value.array.copy() for name, value in block.state_dict().items()}
    state = {name: np.full(value.shape, 7.0) for name, value in before.items()}
    changed = spoil(state)
    with pytest.raises(error, match=message):
        block.load_state_dict(changed if isinstance(changed, list) else state)
    for name, value in block.state_dict().items():
        np.testing.assert_array_equal(value.array, before[name])


def test_non_strict_loading_reports_missing_and_unexpected_keys():
    block = Block()
    result = block.load_state_dict({"scale": np.full(3, 7.0), "other": np.zeros(1)}, strict=False)
    assert result == (["table", "first.weight", "first.bias", "rest.0.weight", "rest.0.bias"], ["other"])
    assert block.scale.tolist() == [7, 7, 7]


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


class Saved(nn.Module):
    def _save_to_state_dict(self, destination, prefix, keep_vars):
        destination[prefix + "packed"] = 1


class Counting(nn.Module):
    count = 0

    def get_extra_state(self):
        return {"count": self.count}

    def set_extra_state(self, state):
        self.count = state["count"]


def loaded(model, state, **settings):
    model.load_state_dict(state, **settings)
    return model


COUNTED = Counting()
COUNTED.count = 3
OVERRIDDEN = {  # what each method changes in a model that contains the module
    "train": (Frozen(1, 1), lambda m: (m.train().training, m[0].training), (True, False)),
    "state_dict": (WithTeacher(), lambda m: list(m.state_dict()), ["0.own"]),
    "_save_to_state_dict": (Saved(), lambda m: m.state_dict(), {"0.packed": 1}),
    "_load_from_state_dict": (
        Renamed(), lambda m: (loaded(m, {"0.old": mg.full((1,), 5.0)})[0].new.item(), m[0].double), (5, 10)),
    "get_extra_state": (COUNTED, lambda m: m.state_dict(), {"0._extra_state": {"count": 3}}),
    "set_extra_state": (Counting(), lambda m: loaded(m, {"0._extra_state": {"count": 7}})[0].count, 7),
}  # fmt: skip


@pytest.mark.parametrize(("module", "observe", "expected"), OVERRIDDEN.values(), ids=list(OVERRIDDEN))
def test_containers_call_overridden_methods_of_submodules(module, observe, expected):
    assert observe(nn.Sequential(module)) == expected


def test_converting_a_model_keeps_its_parameters_and_integers():
    block = Block()
    block.register_buffer("ids", mg.arange(3))
    scale = block.scale
    block.double()
    assert block.scale is scale
    assert {str(v.dtype) for v in block.state_dict().values()} == {"float64", "int64"}
    assert block(mg.ones(1, 2)).dtype == mg.float64
    assert block.float().to("cpu").scale.dtype == mg.float32


def test_requires_grad_freezes_parameters():
    block = Block()
    assert not block.requires_grad_(False)(mg.ones(1, 2)).requires_grad
    assert block.requires_grad_(True)(mg.ones(1, 2)).requires_grad


def test_zero_grad_fills_zeros_or_sets_none():
    block = Block()
    block(mg.ones(1, 2)).sum().backward()
    grad = block.scale.grad
    block.zero_grad(set_to_none=False)
    assert block.scale.grad is grad
    assert grad.tolist() == [0, 0, 0]
    block.zero_grad()
    assert block.scale.grad is None


def test_zero_grad_detaches_gradients():
    block = Block()
    block(mg.ones(1, 2)).sum().backward(create_graph=True)
    block.zero_grad(set_to_none=False)
    assert block.scale.grad.tolist() == [0, 0, 0]
    assert not block.scale.grad.requires_grad


def test_a_shared_module_is_one_child_that_runs_twice():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, nn.ReLU(), layer)
    visited = []
    model.apply(visited.append)
    assert visited == [*model.children(), model] == [layer, model[1], model]
    assert names(model.named_parameters()) == ["0.weight", "0.bias"]
    assert set(model.state_dict()) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    x = mg.ones(1, 2)
    np.testing.assert_array_equal(model(x).array, layer(layer(x).relu()).array)


def test_converting_a_model_converts_its_gradients():
    layer = nn.Linear(1, 1)
    layer(mg.ones(1, 1)).sum().backward()
    layer.double()
    assert layer.weight.grad.tolist() == [[1]]
    assert layer.weight.grad.dtype == mg.float64


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


def test_initial_values():
    x = mg.empty(200, 300)
    assert nn.init.zeros_(x).sum().item() == 0
    assert nn.init.ones_(x).sum().item() == nn.init.eye_(x).sum().item() * 300 == 60_000
    assert nn.init.xavier_normal_(x).std().item() == pytest.approx((2 / 500) ** 0.5, rel=0.02)
    assert nn.init.kaiming_normal_(x).std().item() == pytest.approx((2 / 300) ** 0.5, rel=0.02)
    q = nn.init.orthogonal_(mg.empty(3, 5)).numpy()
    np.testing.assert_allclose(q @ q.T, np.eye(3), atol=1e-6)
    with pytest.raises(ShapeError, match="at least 2 axes"):
        nn.init.orthogonal_(mg.ones(3))


def test_hard_gumbel_softmax_uses_soft_gradients():
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
def test_dropout_p_must_be_a_probability(p):
    for make in (lambda: nn.Dropout(p), lambda: F.dropout(mg.ones(1), p)):
        with pytest.raises(OptionError, match="probability"):
            make()


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
    [(lambda: nn.Linear(3, 2), np.ones((2, 3))), (lambda: nn.Conv1d(3, 2, 1), np.ones((2, 3, 4)))],
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
