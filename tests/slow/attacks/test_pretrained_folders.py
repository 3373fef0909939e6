"""300 damaged folders of pretrained models: each is refused with a message, or gives the undamaged model.

A child process imports them, with limited memory and time. Nothing is unpickled.
"""

import gzip
import json
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ...pretrained.test_imported_runs import bert_folder, byte_level, t5_folder, write_tokenizer

COUNT = 300
MEMORY = 4 * 2**30  # bytes of addresses that the child may use
CHILD = """
import contextlib, hashlib, io, json, resource, signal, sys, traceback
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
import numpy as np
from pathlib import Path
from minitransformer.cli import main
from minitransformer.runs.run import Run
for line in sys.stdin:
    folder, target = json.loads(line)
    out, err = io.StringIO(), io.StringIO()
    found = {{}}
    signal.alarm(60)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            found["code"] = main(["import", folder, "--run-dir", target])
            if found["code"] == 0:
                run = Run(Path(target))
                digest = hashlib.sha256(run.tokenizer.to_bytes())
                for name, tensor in sorted(run.model.state_dict().items()):
                    digest.update(name.encode() + np.ascontiguousarray(tensor.numpy()).tobytes())
                digest.update(repr(run.model.config).encode())
                found["digest"] = digest.hexdigest()
    except BaseException as error:
        found["raised"] = traceback.format_exc()
    signal.alarm(0)
    found["err"] = err.getvalue()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({{**found, "peak": peak}}), flush=True)
"""


class Canary:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def gpt2_folder(folder):
    from minitransformer import GPT, GPTConfig, save_pretrained

    backend = byte_level()
    size = backend.get_vocab_size()
    config = GPTConfig(vocab_size=size, n_positions=16, n_embd=8, n_layer=2, n_head=2, eos_token_id=size - 1)
    save_pretrained(GPT(config), folder)
    write_tokenizer(backend, folder, eos_token="<|endoftext|>")
    return folder


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    root = tmp_path_factory.mktemp("good")
    return [
        gpt2_folder(root / "gpt2"), bert_folder(root / "bert", head="similarity"), t5_folder(root / "t5"),
    ]  # fmt: skip


# ---------------------------------------------------------------- damages: (folder, random) -> what was done


def truncate(folder, rng):
    path = rng.choice([folder / n for n in ("config.json", "model.safetensors", "tokenizer.json")])
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content) - (2 if path.suffix == ".json" else 0))])
    return f"truncated {path.name}"


def header_length(folder, rng):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    new = rng.choice([0, 1, length - 1, length + 1, 2**63, 2**64 - 1, len(content), 2**32, 100_000_001])
    path.write_bytes(struct.pack("<Q", new) + content[8:])
    return f"header length {new}"


def header_entry(folder, rng):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    names = sorted(n for n in header if n != "__metadata__")
    entry = header[rng.choice(names)]
    shape = entry["shape"]
    begin, end = entry["data_offsets"]
    shapes = [[2**62], [2**32, 2**32], [-1], [1.5], ["4"], None, [0], [2**64], [[]], [*shape, 1]]
    offsets = [[0, 4], [begin, end + 4], [end, begin], [-4, 0], [2**63, 2**64], "x"]
    dtypes = ["F8_E4M3", "I32", "BOOL", "F128", "", None, 5, "f32", "U8"]
    kind = rng.randrange(8)
    name = rng.choice(names)
    text = ""
    match kind:
        case 0 | 1 | 2:
            field = ("shape", "data_offsets", "dtype")[kind]
            entry[field] = rng.choice((shapes, offsets, dtypes)[kind])
        case 3:
            header["extra"] = entry
        case 4:
            header[f"{name}x"] = header.pop(name)
        case 5:
            text = "[" * 100_000
        case 6:
            text = json.dumps(header)[:-1] + ', "a": NaN}'
        case 7:
            del header[name]
    text = (text or json.dumps(header)).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    return f"header entry ({kind})"


def tensors(folder, rng):
    path = folder / "model.safetensors"
    found = load_file(path)
    name = rng.choice(sorted(found))
    kind = rng.randrange(5)
    if kind == 0:
        found[name] = np.full_like(found[name], rng.choice([np.nan, np.inf, -np.inf]))
    elif kind == 1:
        found[name] = np.zeros([n + 1 for n in found[name].shape], np.float32)
    elif kind == 2:
        del found[name]
    elif kind == 3:
        found[name] = found[name].astype(np.int32)
    else:
        found = {f"other.{n}": value for n, value in found.items()}
    save_file(found, path)
    return f"tensor {name} ({kind})"


INVALID = ["x", -1, 0, 2**40, 2**70, [], {}, [1], None, 1.5, True, "1"]
SIZES = {
    "gpt2": ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head"),
    "bert": ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    "t5": ("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads"),
}


def setting(folder, rng):
    path = folder / "config.json"
    content = json.loads(path.read_text())
    name = rng.choice(SIZES[content["model_type"]])
    value = rng.choice([v for v in INVALID if v is not True or content[name] != 1])
    content[name] = value
    path.write_text(json.dumps(content))
    return f"{name} = {value!r}"


NOT_SETTINGS = [
    b"", b"null", b"[]", b"3", b'"text"', b"{", b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe{}",
    b"\x00" * 99, b"NaN", gzip.compress(b"{}"),
]  # fmt: skip


def config_text(folder, rng):
    path = folder / "config.json"
    good = json.loads(path.read_text())
    other = {**good, "model_type": rng.choice(["mamba", 5, None, [], "BERT"])}
    without = {name: value for name, value in good.items() if name != "model_type"}
    infinite = json.dumps(good).replace("{", '{"vocab_size": Infinity, "x": ', 1)
    texts = [json.dumps(other), json.dumps(without), infinite]
    path.write_bytes(rng.choice([*NOT_SETTINGS, *(text.encode() for text in texts)]))
    return "text of config.json"


WRONG = {  # parts of tokenizer.json, and what they cannot be
    "model.type": ["Word2Vec", 5, None],
    "model.vocab": [None, 5, "x", [[1]], [["a", "b"]], {"a": -1}, {"a": "b"}, {"a": 2**70}, {"a": 1.5}],
    "model.merges": [5, [["a"]], ["a b c"], [["zz", "qq"]]],
    "added_tokens": [5, [5], [{"id": -1}], [{"id": 2**40, "content": "x"}], [{"content": "x"}]],
    "pre_tokenizer": [5, {"type": "Nothing"}, {"type": "Split", "pattern": {"Regex": "("}}],
    "normalizer": [5, {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, {"type": "x"}],
    "post_processor": [5, {"type": "BertProcessing"}, {"type": "TemplateProcessing", "single": 5}],
    "model": [None, {}, 5],
}


def tokenizer(folder, rng):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    vocab = content["model"]["vocab"]
    part, key = rng.choice([("model.id", ""), *((name, name.rpartition(".")[2]) for name in WRONG)])
    if part == "model.id":
        if isinstance(vocab, dict):
            vocab[sorted(vocab)[5]] = rng.choice([10**6, 2**31, 2**32 + 1, -5])
        else:
            content["model"]["unk_id"] = rng.choice([10**9, -1, "x"])
    else:
        (content["model"] if "." in part else content)[key] = rng.choice(WRONG[part])
    path.write_text(json.dumps(content))
    return f"tokenizer.json ({part})"


def tokenizer_text(folder, rng):
    path = folder / "tokenizer.json"
    texts = [*NOT_SETTINGS, b'{"model": {}}', b'{"version": "1.0"}']
    path.write_bytes(rng.choice(texts))
    return "text of tokenizer.json"


def replaced(folder, rng):
    path = folder / rng.choice(["config.json", "model.safetensors", "tokenizer.json"])
    path.unlink()
    kind = rng.choice(["missing", "folder", "pipe", "loop", "dangling", "empty"])
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path.name)
        case "dangling":
            path.symlink_to("nowhere")
        case "empty":
            path.touch()
    return f"{path.name}: {kind}"


def pickled(folder, rng):
    content = pickle.dumps(Canary(folder.parent / "executed"))
    (folder / "model.safetensors").unlink()
    name = rng.choice(["model.safetensors", "pytorch_model.bin", "model.pt", "model.ckpt"])
    (folder / name).write_bytes(content)
    return f"pickle as {name}"


def shards(folder, rng):
    found = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = list(found)
    save_file({n: found[n] for n in names[:4]}, folder / "a.safetensors")
    save_file({n: found[n] for n in names[4:]}, folder / "b.safetensors")
    weight_map = {n: "a.safetensors" if i < 4 else "b.safetensors" for i, n in enumerate(names)}
    kind = rng.randrange(8)
    bad = ["../a.safetensors", "/etc/passwd", "..", "C:\\\\a.safetensors", "a\\\\..\\\\b", "", ".", 5]
    if kind == 0:
        weight_map[names[0]] = rng.choice(bad)
    elif kind == 1:
        weight_map = dict.fromkeys(weight_map, rng.choice(bad))
    elif kind == 2:
        weight_map[names[-1]] = "a.safetensors"
    elif kind == 3:
        del weight_map[names[0]]
    elif kind == 4:
        (folder / "b.safetensors").unlink()
    elif kind == 5:
        weight_map = rng.choice([[], None, "a.safetensors", 5])
    elif kind == 6:
        save_file(found, folder / "b.safetensors")
    else:
        weight_map = {}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return f"shards ({kind})"


def sparse(folder, rng):
    path = folder / rng.choice(["config.json", "model.safetensors", "tokenizer.json"])
    with open(path, "r+b") as file:
        file.truncate(2**31 + 2**20)
    return f"{path.name} of 2 GB"


def roles(folder, rng):
    path = folder / "tokenizer_config.json"
    path.write_bytes(rng.choice([b"[]", b"{", b"\xff", b"5", b"[" * 99_999]))
    return "tokenizer_config.json"


DAMAGES = [
    truncate, header_length, header_entry, tensors, setting, setting, config_text, tokenizer, tokenizer,
    tokenizer_text, replaced, pickled, shards, sparse, roles,
]  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_300_damaged_folders_are_rejected_or_harmless(good, tmp_path):
    rng = random.Random(0)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(memory=MEMORY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, cwd=tmp_path,
    )  # fmt: skip

    def outcome(folder, number):
        child.stdin.write(json.dumps([str(folder), str(tmp_path / f"run{number}")]) + "\n")
        child.stdin.flush()
        line = child.stdout.readline()
        assert line, f"the child died on {folder}"
        return json.loads(line)

    undamaged = {folder.name: outcome(folder, f"-{folder.name}")["digest"] for folder in good}
    problems = []
    refused = same = 0
    for number in range(COUNT):
        source = good[number % len(good)]
        folder = tmp_path / str(number) / source.name
        shutil.copytree(source, folder)
        done = DAMAGES[number % len(DAMAGES)](folder, rng)
        found = outcome(folder, number)
        what = f"{number} {source.name}: {done}: {found.get('code')} {found['err'][-300:]}"
        what += found.get("raised", "")
        if found.get("code") == 2 and not found.get("raised"):
            refused += 1
            lines = found["err"].strip().splitlines()
            if len(lines) < 2 or "Traceback" in found["err"] or "panicked" in found["err"]:
                problems.append(f"message: {what}")
            if (tmp_path / f"run{number}").exists():
                problems.append(f"left a run: {what}")
        elif found.get("code") == 0 and found["digest"] == undamaged[source.name]:
            same += 1
        else:
            problems.append(f"silent or traceback: {what}")
        if found["peak"] > 2**20 * 1.5:  # kilobytes
            problems.append(f"memory {found['peak']}: {what}")
        if Path(folder.parent / "executed").exists():
            problems.append(f"executed: {what}")
        shutil.rmtree(tmp_path / str(number))
        shutil.rmtree(tmp_path / f"run{number}", ignore_errors=True)
    child.communicate(timeout=60)
    print(f"{refused} refused, {same} gave the undamaged model")
    assert not problems, "\n".join(problems)
    assert refused > 0.8 * COUNT
