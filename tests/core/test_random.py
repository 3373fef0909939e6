"""Randomness: a draw is a function of its key alone."""

import sys
import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.autograd import checkpoint
from minigrad.core import random
from minigrad.nn import functional as F
from minigrad.ops import draws
from minitransformer.data.batching import BlockBatches
from tests.kernel_sets import BOTH

DRAWS = {
    "rand": lambda: mg.rand(3, 4),
    "randn": lambda: mg.randn(3, 4),
    "randint": lambda: mg.randint(0, 100, (3, 4)),
    "dropout": lambda: F.dropout(mg.ones(3, 4), 0.5),
    "init": lambda: nn.Linear(4, 3).weight,
}
EACH = pytest.mark.parametrize("draw", DRAWS.values(), ids=list(DRAWS))


@EACH
def test_the_same_seed_gives_the_same_sequence(draw):
    mg.manual_seed(1)
    first, second = draw().array.copy(), draw().array.copy()
    mg.manual_seed(1)
    np.testing.assert_array_equal(draw().array, first)
    np.testing.assert_array_equal(draw().array, second)
    assert (first != second).any()
    mg.manual_seed(2)
    assert (draw().array != first).any()


@EACH
def test_random_streams_are_independent(draw):
    mg.manual_seed(1)
    expected = draw().array.copy()
    mg.manual_seed(1)
    for other in DRAWS.values():
        if other is not draw:
            other()
    np.testing.assert_array_equal(draw().array, expected)


def test_draws_of_a_step_do_not_depend_on_earlier_draws():
    def dropped(step):
        random.set_step(step)
        return [F.dropout(mg.ones(8), 0.5).array.copy() for _ in range(2)]

    mg.manual_seed(1)
    run = [dropped(step) for step in range(4)]
    mg.manual_seed(1)
    np.testing.assert_array_equal(dropped(3), run[3])
    F.dropout(mg.ones(8), 0.5)  # evaluation, say
    np.testing.assert_array_equal(dropped(2), run[2])
    assert len({np.array(r).tobytes() for r in run}) == 4


def test_64_bit_seeds_give_different_draws():
    draws = set()
    for seed in (0, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1):
        mg.manual_seed(seed)
        draws.add(mg.randn(4).array.tobytes())
    assert len(draws) == 5


@pytest.mark.parametrize(
    "draw",
    [
        lambda n: F.dropout(mg.ones(n, 5, 3), 0.3),
        lambda n: mg.rand(n, 5),
        lambda n: mg.randn(n, 3),
        lambda n: mg.randint(0, 9, (n, 7)),
        lambda n: F.scaled_dot_product_attention(*[mg.ones(n, 3, 2)] * 3, dropout_p=0.5),
    ],
    ids=["dropout", "rand", "randn", "randint", "attention"],
)
def test_micro_batches_draw_what_the_whole_batch_draws(draw):
    mg.manual_seed(5)
    whole = draw(6).array.copy()
    mg.manual_seed(5)
    parts = []
    for first, n in ((0, 1), (1, 3), (4, 2)):
        with random.rows(first):
            parts.append(draw(n).array)
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_dropout_masks_keep_a_fraction_of_1_minus_p():
    key = random.Key(seed=0, stream=0, step=0, call=0)
    for p in (0.0, 0.1, 0.5, 1.0):
        assert draws.keep_mask(key, (100, 1000), p).mean() == pytest.approx(1 - p, abs=0.005)
    for p in (5e-6, 2.2e-5, 3.59e-4):  # 16 bits would round these by more than 1%
        for rare in (~draws.keep_mask(key, (4_000_000,), p), draws.keep_mask(key, (4_000_000,), 1 - p)):
            assert abs(rare.sum() - 4e6 * p) < 5 * (4e6 * p) ** 0.5


@pytest.mark.parametrize("p", [0.1, 0.3, 0.9, 3.59e-4, 5e-6, 0.9999])
@pytest.mark.parametrize("drop", ["dropout", "attention"])
@pytest.mark.parametrize("which", BOTH)
def test_dropout_scales_kept_values_by_1_over_1_minus_p(which, drop, p):
    """By kernels and by the definition, with one mask."""
    found = []
    for fused in (False, True):
        mg.manual_seed(1)
        with mg.kernels.use(which), mg.fused(fused):
            if drop == "dropout":
                found.append(F.dropout(mg.ones(50_000), p).numpy())
            else:  # 50,000 weights of 1
                one = mg.ones(1, 1, 50_000, 1)
                y = F.scaled_dot_product_attention(one, one[:, :, :1], one[:, :, :1], dropout_p=p)
                found.append(y.numpy().reshape(-1))
        np.testing.assert_array_equal(found[-1] != 0, found[0] != 0)
        np.testing.assert_allclose(found[-1][found[0] != 0], 1 / (1 - p), rtol=1e-6)


def test_random_keys_depend_on_every_field():
    key = random.Key(seed=1, stream=2, step=3, call=4)
    keys = [key, *(key._replace(**{field: 9}) for field in ("seed", "stream", "step", "call"))]
    assert len({draws.keep_mask(k, (64,), 0.5).tobytes() for k in keys}) == 5
    assert len({draws.generator(k).random(4).tobytes() for k in keys}) == 5


# ---------------------------------------------------------------- threads


@pytest.fixture
def busy_threads():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(function, count=8, names=None):
    """function(i) in `count` threads that run at once; what each returned."""
    start = threading.Barrier(count, timeout=60)
    results = [None] * count

    def run(i):
        start.wait()
        results[i] = function(i)

    threads = [threading.Thread(target=run, args=(i,), name=names and names[i]) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def train(seed, steps=6, call=lambda layer, x: layer(x)):
    """The losses and weights of a small model with dropout, its own data, and checkpointed if `call` does."""
    mg.manual_seed(seed)
    up = nn.Linear(6, 16)
    down = nn.Linear(16, 1)
    drop = nn.Dropout(0.4)
    parameters = [*up.parameters(), *down.parameters()]
    optimizer = mg.optim.SGD(parameters, lr=0.1)
    losses = []
    for step in range(steps):
        random.set_step(step)
        loss = (down(call(lambda x: drop(drop(up(x)).relu()), mg.randn(8, 6))) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.array.copy() for p in parameters]


@pytest.mark.parametrize("call", [lambda layer, x: layer(x), checkpoint], ids=["plain", "checkpointed"])
def test_seeded_threads_train_the_same_as_alone(busy_threads, call):
    alone = [train(seed) for seed in range(8)]
    for _ in range(3):
        together = in_threads(lambda i: train(i, call=call))
        for (losses, weights), (expected, expected_weights) in zip(together, alone, strict=True):
            np.testing.assert_allclose(losses, expected, rtol=1e-5)
            for one, other in zip(weights, expected_weights, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert len({tuple(losses) for losses, _ in alone}) == 8


def test_a_thread_does_not_disturb_the_main_threads_draws():
    def other(i):
        random.set_step(7)
        mg.manual_seed(9)
        return mg.rand(2)

    mg.manual_seed(1)
    expected = [mg.rand(3).array.copy() for _ in range(2)]
    mg.manual_seed(1)
    first = mg.rand(3)
    in_threads(other, 1)
    np.testing.assert_array_equal([first.array, mg.rand(3).array], expected)


def test_unseeded_threads_draw_different_numbers():
    for names in (None, ["worker"] * 8):
        mg.manual_seed(0)
        drawn = in_threads(lambda i: mg.rand(4).array.tobytes(), names=names)
        assert len({*drawn, mg.rand(4).array.tobytes()}) == 9


def test_named_threads_draw_reproducibly_from_the_seed():
    names = [f"worker {i}" for i in range(8)]

    def drawn(seed):
        mg.manual_seed(seed)
        return in_threads(lambda i: mg.rand(4).array.tobytes(), names=names)

    assert drawn(0) == drawn(0)
    assert not set(drawn(0)) & set(drawn(1))


# ---------------------------------------------------------------- checkpoints


def masked(x, seen):
    """Dropout of ones, twice, the second in a checkpoint of its own; `seen` gets each mask."""

    def inner(x):
        y = F.dropout(x, 0.5)
        seen.append(y.array != 0)
        return y

    return checkpoint(inner, inner(x))


def while_others_draw(loss):
    done = threading.Event()

    def draw(i):
        if i:
            while not done.is_set():
                F.dropout(mg.ones(5), 0.5)
                random.set_step(i)
        else:
            try:
                loss.backward()
            finally:
                done.set()

    in_threads(draw, 4)


BACKWARDS = {
    "later": lambda loss: loss.backward(),
    "in another thread": lambda loss: in_threads(
        lambda i: (mg.manual_seed(5), mg.rand(3), loss.backward()), 1
    ),
    "at another step": lambda loss: (random.set_step(99), loss.backward()),
    "after other draws": lambda loss: (F.dropout(mg.ones(50), 0.5), mg.rand(3), loss.backward()),
    "after another seed": lambda loss: (mg.manual_seed(77), loss.backward()),
    "within rows": lambda loss: random.rows(1000)(loss.backward)(),
    "while others draw": while_others_draw,
}


@pytest.mark.parametrize("backward", BACKWARDS.values(), ids=list(BACKWARDS))
def test_checkpoint_recomputes_with_the_same_dropout_mask(backward, busy_threads):
    mg.manual_seed(3)
    random.set_step(2)
    seen = []
    x = mg.ones(64, requires_grad=True)
    y = checkpoint(masked, x, seen)
    backward(y.sum())
    first = [mask.tobytes() for mask in seen[:2]]
    assert first[0] != first[1]
    # forward, the outer again, the inner in it again
    assert [mask.tobytes() for mask in seen[2:]] == [*first, first[1]]
    np.testing.assert_array_equal(x.grad.array != 0, seen[1])
    np.testing.assert_array_equal(x.grad.array, y.array)


def test_recomputation_repeats_the_draws_of_a_passed_generator():
    ours = mg.Generator().manual_seed(4)
    other = mg.Generator().manual_seed(5)
    seen = []

    def noisy(x):
        def inner(x):
            seen.append(mg.rand(5, generator=ours).array)
            return x * seen[-1]

        seen.append(mg.rand(5, generator=ours).array)
        return checkpoint(inner, x * seen[-1])

    x = mg.ones(5, requires_grad=True)
    y = checkpoint(noisy, x)
    after = ours.get_state()
    mg.rand(3, generator=ours)
    mg.rand(3, generator=other)
    states = [g.get_state().tolist() for g in (ours, other)]
    y.sum().backward()
    assert [g.get_state().tolist() for g in (ours, other)] == states
    first = [numbers.tobytes() for numbers in seen[:2]]
    assert [numbers.tobytes() for numbers in seen[2:]] == [*first, first[1]]
    np.testing.assert_array_equal(x.grad.array, y.array)
    assert after.tolist() != states[0]


def test_large_seeds_draw_different_blocks():
    draw = lambda seed: BlockBatches(np.arange(1000), 4, 8, seed).batch(0)["input"].tolist()
    assert draw(2**63) != draw(2**63 + 1)
