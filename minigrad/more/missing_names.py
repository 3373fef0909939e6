"""PyTorch names that minigrad does not have, and what to use instead.

Asking for one raises an error (see `late_names.py`), so `hasattr` is False.
"""

from __future__ import annotations

import dis
import sys
from difflib import get_close_matches
from types import ModuleType
from typing import NoReturn

from ..core.errors import MissingImportError, MissingNameError
from ..core.frames import is_library

# names without `torch.`, and what to do; `F` is nn.functional
INSTEAD = {
    # networks
    "nn.MultiheadAttention F.multi_head_attention_forward": (
        "`minitransformer.MultiHeadAttention`, which is batch first. Its boolean masks say who may "
        "attend (True = may), so negate those of PyTorch's module. The function is "
        "`F.scaled_dot_product_attention`."
    ),
    "nn.Transformer nn.TransformerEncoder nn.TransformerEncoderLayer nn.TransformerDecoder "
    "nn.TransformerDecoderLayer": (
        "`minitransformer.Transformer`, or the `Encoder` and `Decoder` of `minitransformer.layers`."
    ),
    "nn.EmbeddingBag F.embedding_bag": "`nn.Embedding`, then `.sum(1)` or `.mean(1)` over the bag.",
    "nn.CTCLoss F.ctc_loss": (
        "Align the labels first, then `nn.CrossEntropyLoss`; CTC's sum over alignments is not supported."
    ),
    "nn.AdaptiveLogSoftmaxWithLoss nn.LinearCrossEntropyLoss F.linear_cross_entropy": (
        "`F.cross_entropy` of all logits."
    ),
    "nn.LazyLinear nn.LazyConv1d nn.LazyConv2d nn.LazyConv3d nn.LazyBatchNorm1d nn.LazyBatchNorm2d "
    "nn.LazyBatchNorm3d": (
        "Give the sizes: `nn.Linear(in_features, out_features)`."
    ),
    "nn.SyncBatchNorm": (
        "`nn.BatchNorm2d` in each process, or `nn.GroupNorm`, which does not depend on the batch."
    ),
    "nn.CrossMapLRN2d": "`nn.LocalResponseNorm`.",
    "nn.RReLU F.rrelu": "`nn.LeakyReLU`.",
    "nn.FeatureAlphaDropout F.feature_alpha_dropout": "`nn.AlphaDropout`.",
    "nn.LPPool1d nn.LPPool2d nn.LPPool3d F.lp_pool1d F.lp_pool2d F.lp_pool3d": (
        "`(F.avg_pool2d(x**p, n) * n**2) ** (1 / p)`."
    ),
    "nn.FractionalMaxPool2d nn.FractionalMaxPool3d F.fractional_max_pool2d F.fractional_max_pool3d": (
        "`nn.AdaptiveMaxPool2d`."
    ),
    "F.grid_sample F.affine_grid": (
        "`F.interpolate` resizes; other warps are sums of `mg.gather` with weights."
    ),
    "nn.utils.weight_norm nn.utils.spectral_norm nn.utils.parametrize nn.utils.parametrizations "
    "nn.utils.prune": (
        "Compute the weight from parameters in `forward`, and apply `F.linear` or `F.conv2d`."
    ),
    "nn.Buffer": "`nn.Module.register_buffer`.",
    "nn.DataParallel nn.parallel distributed": (
        "One process computes on one device. Recipes train on several with `mpiexec -n 4 minitransformer "
        "train ...`: see `minitransformer.training.ranks`."
    ),
    "nn.Module.share_memory Tensor.share_memory_ multiprocessing": (
        "Put an array into `multiprocessing.shared_memory`, and use `mg.from_numpy` on it."
    ),
    # optimizers
    "optim.Adafactor": (
        "`optim.AdamW`; with less memory `optim.RMSprop`, which stores one number for each parameter, or "
        "`optim.SGD`, which without momentum stores none."
    ),
    "optim.Rprop": "`optim.RMSprop`, which is Rprop for mini-batches.",
    "optim.ASGD": "`optim.SGD`, and an average of the weights, kept by hand.",
    "optim.SparseAdam": "`optim.Adam`: gradients are dense.",
    "optim.swa_utils": (
        "Keep an average by hand, with `mg.Tensor.add_`: "
        "`for a, p in zip(average, params): a.data.mul_(0.99).add_(p.data, alpha=0.01)`."
    ),
    # saving and data
    "save": (
        "`mg.save_file(model.state_dict(), path)`: a safetensors file, which holds tensors by name and "
        "no code."
    ),
    "load": (
        "`mg.load_file(path)`, which reads what `mg.save_file` or safetensors wrote; "
        "`model.load_state_dict` takes it."
    ),
    "hub onnx package": "Weights in a safetensors file: `mg.load_file` and `nn.Module.load_state_dict`.",
    "utils.data.Sampler utils.data.SequentialSampler utils.data.RandomSampler utils.data.BatchSampler "
    "utils.data.WeightedRandomSampler utils.data.SubsetRandomSampler": (
        "`shuffle=True`, or the order itself: `mg.utils.data.Subset(data, indices)`, with "
        "`mg.multinomial` for weights."
    ),
    "utils.data.get_worker_info utils.data.distributed": (
        "`mg.utils.data.DataLoader` makes its batches in one process."
    ),
    "utils.tensorboard": (
        "Use a package such as `tensorboardX`, with `x.item()` and `x.numpy()`."
    ),
    "utils.dlpack to_dlpack": (
        "`mg.from_dlpack(x)`; other libraries read a tensor through its `__dlpack__`."
    ),
    # autograd
    "autograd.Function autograd.function": (
        "An op is one function with the decorator `mg.ops.differentiable`: it returns its value and a "
        "function of the upstream gradient for each input (docs/your-own.md)."
    ),
    "autograd.gradcheck autograd.gradgradcheck": (
        "`mg.gradcheck(f, [x, y])`; with `order=2` second derivatives, too."
    ),
    "autograd.functional": (
        "`mg.func.jacobian(f)(x)`, `mg.func.hessian(f)(x)`, `mg.func.vjp`, `mg.func.jvp`, `mg.func.hvp`."
    ),
    "autograd.forward_ad func.linearize": "`mg.func.jvp(f, (x,), (t,))`.",
    "autograd.graph": "`mg.autograd.checkpoint` saves memory; `mg.graph.trace` draws the graph.",
    "autograd.profiler profiler": (
        "`python -m cProfile`; `python -m benchmarks ops` times each op; `mg.debug` says where memory "
        "goes."
    ),
    "vmap func.vmap func.stack_module_state": (
        "Write the batch axis into the function (ops broadcast), or loop: `mg.stack([f(x) for x in "
        "batch])`."
    ),
    "func.grad_and_value": "`mg.func.value_and_grad(f)`, which returns the value first.",
    "func.functionalize": "Leave it out; `mg.func.grad` takes functions unchanged.",
    "is_inference_mode_enabled": "`mg.is_grad_enabled()`.",
    # compiling, devices, precision
    "compile jit compiler fx export nn.Module.compile": (
        "Leave it out: code runs eagerly. On a GPU `mg.capture(step)` records a training step and replays "
        "it."
    ),
    "cuda.amp": "`mg.amp.autocast('cuda', dtype=mg.float16)` and `mg.amp.GradScaler()`.",
    "mps xpu mtia cpu": (
        "`mg.cuda.is_available()`; `mg.device('auto')` is a GPU if there is one, else the CPU."
    ),
    "cuda.empty_cache cuda.memory_allocated cuda.max_memory_allocated cuda.memory_reserved "
    "cuda.memory_summary": (
        "CuPy manages the memory; `mg.debug` reports what a step keeps."
    ),
    "cuda.Stream cuda.stream cuda.Event cuda.current_stream cuda.CUDAGraph cuda.graph": (
        "`mg.capture`, or CuPy's own streams."
    ),
    "cuda.set_device cuda.current_device cuda.get_device_name cuda.device": (
        "`x.to('cuda:1')`: naming a GPU makes it the one in use."
    ),
    "set_num_threads get_num_threads set_num_interop_threads": (
        "The environment variable OMP_NUM_THREADS, set before the import; `mg.kernels.use` chooses kernels."
    ),
    "set_default_tensor_type": (
        "`dtype=` and `device=` where a tensor is made: `mg.zeros(3, dtype='float64')`."
    ),
    "Tensor.pin_memory Tensor.is_pinned Tensor.record_stream": (
        "Leave it out; `x.to('cuda')` copies as fast as CuPy can."
    ),
    "Tensor.storage Tensor.untyped_storage Tensor.storage_offset": "`x.array`, the NumPy or CuPy array.",
    "Tensor.as_strided as_strided": (
        "`x.unfold(dim, size, step)` gives windows; `mg.from_numpy` takes any strided array."
    ),
    "Tensor.resize_ Tensor.set_": "A tensor keeps its shape: `x.reshape(...)`, or `mg.cat`.",
    "Tensor.new": "`x.new_zeros(2, 3)`, `x.new_tensor(data)`.",
    "Tensor.symeig symeig": "`mg.linalg.eigh`.",
    "Tensor.register_post_accumulate_grad_hook": "`x.register_hook`.",
    # numbers and formats that are not supported
    "complex complex64 complex128 cfloat cdouble imag view_as_real view_as_complex polar "
    "Tensor.imag": (
        "Tensors are real: store both parts, `mg.stack((re, im), dim=-1)`."
    ),
    "fft stft istft signal": (
        "`np.fft` on data (`x.numpy()`), without gradients; with gradients, `mg.matmul` with a matrix of "
        "sines and cosines."
    ),
    "linalg.eig linalg.eigvals": (
        "`mg.linalg.eigh` of a symmetric matrix; others may have complex eigenvalues."
    ),
    "linalg.lstsq": "`mg.linalg.pinv(a) @ b`.",
    "linalg.lu linalg.lu_factor linalg.lu_solve linalg.ldl_factor linalg.ldl_solve lu": (
        "`mg.linalg.solve`, `mg.linalg.qr`."
    ),
    "linalg.inv_ex linalg.cholesky_ex linalg.solve_ex": (
        "`mg.linalg.inv`, `mg.linalg.cholesky`, `mg.linalg.solve`, which raise."
    ),
    "svd qr lstsq": (
        "`mg.linalg.svd(x, full_matrices=False)` (with V transposed), `mg.linalg.qr`, `mg.linalg.pinv`."
    ),
    "sparse sparse_coo_tensor sparse_csr_tensor Tensor.to_sparse Tensor.to_sparse_csr Tensor.coalesce "
    "Tensor.to_dense": (
        "Tensors are dense: `mg.scatter_add` and `mg.gather` with indices."
    ),
    "nested": "Pad, and mask the padding: `mg.masked_fill`.",
    "quantize_per_tensor ao Tensor.dequantize": "Round: `mg.round`, `x.to('int8')`.",
    "distributions": (
        "`mg.normal`, `mg.multinomial`, `mg.bernoulli` draw; log probabilities are `F.log_softmax` and "
        "`F.gaussian_nll_loss`."
    ),
    "range": "`mg.arange(start, end + 1)`.",
    "hann_window hamming_window blackman_window": (
        "`mg.from_numpy(np.hanning(n + 1)[:-1])`, and likewise `np.hamming`, `np.blackman`."
    ),
}  # fmt: skip

TABLE = {
    name.replace("F.", "nn.functional.", 1) if name.startswith("F.") else name: advice
    for names, advice in INSTEAD.items()
    for name in names.split()
}


def raise_missing(package: ModuleType, name: str) -> NoReturn:
    """Raise an error for a name that a package of minigrad does not have."""
    path = package.__name__.removeprefix("minigrad").removeprefix(".more")
    raise_if_known(f"{path}.{name}".lstrip("."))
    public = [own for own in vars(package) if own[0] != "_"]
    close = [own for own in public if own.lower() == name.lower()]
    close = close or get_close_matches(name, public, 1)
    meant = f".\nDid you mean {close[0]!r}?" if close else ""
    raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}{meant}")


def raise_if_known(name: str) -> None:
    """Raise an error that says what to use instead if the table has the name."""
    if name not in TABLE:
        return
    frame = sys._getframe(1)
    while is_library[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    # for `from minigrad import name`, Python replaces the message of an AttributeError
    is_import = dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"
    owner = "" if name.startswith(("Tensor.", "nn.Module.")) else "minigrad."
    error = MissingImportError if is_import else MissingNameError
    raise error(f"{owner}{name} does not exist.\n{TABLE[name]}")
