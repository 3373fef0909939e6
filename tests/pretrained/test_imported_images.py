"""`minitransformer import` of a ViT: images are prepared as its preprocessor_config.json says."""

import json
import re

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from minitransformer import ViT, ViTConfig, load_pretrained, save_pretrained
from minitransformer.cli import main
from minitransformer.data.image_processor import ImageProcessor
from minitransformer.pretrained import PretrainedError
from minitransformer.pretrained.images import read_processor
from minitransformer.runs.run import Run
from minitransformer.tasks.predictions import class_prediction

PROCESSOR = ImageProcessor((4, 4), 2, 1 / 255, [0.5, 0.25, 0.0], [0.5, 0.25, 1.0])
LABELS = ["cat", "owl"]
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 4, 3)).astype(np.uint8)


@pytest.fixture
def hub(tmp_path):
    """A folder with a small ViT."""
    config = ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12, image_size=4,
        patch_size=2, num_labels=2, initializer_range=0.5,
    )  # fmt: skip
    save_pretrained(ViT(config), tmp_path / "hub", labels=LABELS, image_processor=PROCESSOR)
    return tmp_path / "hub"


@pytest.fixture
def run(hub):
    main(["import", str(hub), "--run-dir", str(hub.parent / "run")])
    return hub.parent / "run"


def save_image(pixels, path):
    np.save(path, pixels) if path.suffix == ".npy" else Image.fromarray(pixels).save(path)
    return str(path)


@pytest.mark.parametrize("name", ["a.png", "a.npy"])
def test_pixels_are_rescaled_and_normalized(run, name):
    path = save_image(PIXELS, run.parent / name)
    trained = Run(run)
    image, _ = trained.task.read(trained, [path])
    expected = (PIXELS / 255 - [0.5, 0.25, 0.0]) / [0.5, 0.25, 1.0]
    np.testing.assert_allclose(image, expected.transpose(2, 0, 1), atol=1e-6)


def test_imported_image_runs_have_no_data_set(run, capsys):
    assert main(["predict", str(run), "test:0"]) == 2
    said = f"{run} is an imported run, which has no data set.\nPass an image file, such as cat.png.\n"
    assert said in capsys.readouterr().err
    assert main(["predict", str(run), "none.jpg"]) == 2
    assert "no image 'none.jpg'.\nPass a .png, .jpg or .npy file.\n" in capsys.readouterr().err
    assert main(["evaluate", str(run)]) == 2
    assert "which has no data set.\nPass your own data with --data FILE.\n" in capsys.readouterr().err


@pytest.mark.parametrize("pixels", [PIXELS[..., 0], PIXELS[..., :1], np.dstack([PIXELS, PIXELS[..., 0]])])
def test_grey_and_transparent_images_get_three_channels(run, pixels):
    image = PROCESSOR.read_image(save_image(pixels, run.parent / "a.npy"))
    colours = pixels[..., :3] if pixels.ndim == 3 else pixels[..., None]
    expected = PROCESSOR.read_image(save_image(np.broadcast_to(colours, (4, 4, 3)), run.parent / "b.npy"))
    np.testing.assert_array_equal(image, expected)


def test_image_archives_are_preprocessed_like_single_images(run):
    images = np.stack([PIXELS, PIXELS[::-1]])
    np.savez(run.parent / "test.npz", images=images, labels=[1, 0])
    found = PROCESSOR.read_images(run.parent / "test.npz").images
    singles = [PROCESSOR.read_image(save_image(image, run.parent / "a.npy")) for image in images]
    np.testing.assert_array_equal(found, np.stack(singles))


def test_larger_images_are_resized_by_every_verb(run, capsys):
    large = np.kron(PIXELS, np.ones((3, 5, 1), np.uint8))  # 12 x 20
    path = save_image(large, run.parent / "a.png")
    trained = Run(run)
    image, _ = trained.task.read(trained, [path])
    assert image.shape == (3, 4, 4)
    label = LABELS.index(trained.task.predictions(trained, [[path]])[0].values["prediction"])
    capsys.readouterr()
    main(["predict", str(run), path])
    assert capsys.readouterr().out.startswith(LABELS[label])
    np.savez(run.parent / "test.npz", images=large[None], labels=[label])
    main(["evaluate", str(run), "--data", str(run.parent / "test.npz"), "--json"])
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1


def test_export_keeps_the_image_preprocessing(hub, run):
    main(["export", str(run), str(hub.parent / "back")])
    config = Run(run).recipe.model
    assert read_processor(hub.parent / "back", config) == read_processor(hub, config) == PROCESSOR


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ((4, 4), 2, 1 / 255, [0.5] * 3, [0.5] * 3)),
        ({"size": 4, "resample": 3, "image_mean": [0, 0.5, 1]}, ((4, 4), 3, 1 / 255, [0, 0.5, 1], [0.5] * 3)),
        ({"do_normalize": False}, ((4, 4), 2, 1 / 255, [0] * 3, [1] * 3)),
        ({"do_rescale": False, "do_resize": False}, (None, 2, 1, [0.5] * 3, [0.5] * 3)),
    ],
)
def test_missing_preprocessor_settings_use_vit_defaults(hub, settings, expected):
    (hub / "preprocessor_config.json").write_text(json.dumps(settings))
    assert read_processor(hub, ViTConfig(image_size=4, patch_size=2)) == ImageProcessor(*expected)


def test_import_warns_about_assumed_preprocessing(hub, capsys):
    run = str(hub.parent / "run")
    assert main(["import", str(hub), "--run-dir", run]) == 0
    assert "assumed" not in capsys.readouterr().err
    (hub / "preprocessor_config.json").unlink()
    assert main(["import", str(hub), "--run-dir", run, "--overwrite"]) == 0
    warning = "warning: .*hub has no preprocessor_config.json, assumed: size .4, 4., resample 2, "
    values = r"rescale_factor 0.0039\d*, image_mean .0.5, 0.5, 0.5., image_std .0.5, 0.5, 0.5."
    assert re.search(warning + values, capsys.readouterr().err)


@pytest.mark.filterwarnings("ignore::minitransformer.pretrained.PretrainedWarning")
def test_import_rejects_a_vit_without_a_classifier(hub, capsys):
    tensors = load_file(hub / "model.safetensors")
    body = {name.removeprefix("vit."): array for name, array in tensors.items() if name.startswith("vit.")}
    save_file(body, hub / "model.safetensors")
    settings = json.loads((hub / "config.json").read_text())
    (hub / "config.json").write_text(json.dumps({**settings, "architectures": ["ViTModel"]}))
    assert main(["import", str(hub), "--run-dir", str(hub.parent / "run")]) == 2
    message = "hub has a ViTModel without classifier.weight, classifier.bias, expected a ViTForImageClass"
    assert message in capsys.readouterr().err
    save_pretrained(load_pretrained(hub, num_labels=3), hub.parent / "new")
    assert main(["import", str(hub.parent / "new"), "--run-dir", str(hub.parent / "run")]) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"size": {"height": 8, "width": 4}}, {"size": {"shortest_edge": 4}}, {"size": "4"}, {"size": True},
        {"do_normalize": "false"}, {"do_center_crop": True}, {"do_flip_channel_order": True},
        {"resample": 2.0}, {"rescale_factor": 10**400},
        {"resample": "bilinear"}, {"resample": [2]}, {"resample": 9},
        {"rescale_factor": 0}, {"rescale_factor": "1/255"}, {"image_mean": [0.5]},
        {"image_mean": [0.5, "a", 1]}, {"image_std": [0.5, 0.0, 0.5]},
        {"image_processor_type": "DeiTImageProcessor"},
    ],
    ids=str,
)  # fmt: skip
def test_unsupported_preprocessor_settings_are_named(hub, settings):
    (hub / "preprocessor_config.json").write_text(json.dumps(settings))
    with pytest.raises(PretrainedError, match=rf"preprocessor_config\.json has {next(iter(settings))} = "):
        read_processor(hub, ViTConfig(image_size=4, patch_size=2))


def test_classes_with_equal_names_are_numbered():
    found = class_prediction(np.log([0.5, 0.2, 0.3]), ["crane", "cat", "crane"], 3).values["candidates"]
    assert found == pytest.approx({"crane (0)": 0.5, "crane (2)": 0.3, "cat": 0.2})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.png", b"\x89PNG", "is not an image: not a PNG file"),
        ("a.jpg", b"\xff\xd8\xff", "is not an image: "),
        ("a.webp", b"RIFF", r"is not an image that can be read.\nPass a .png, .jpg or .npy file."),
        ("a.npy", np.zeros((4, 4, 3)), r"must be uint8, from 0 to 255, .*, got float64 \(4, 4, 3\)"),
        ("a.npy", np.zeros((4, 4, 2), np.uint8), r"got uint8 \(4, 4, 2\)"),
    ],
)
def test_invalid_image_files_are_rejected(run, capsys, name, content, message):
    path = run.parent / name
    path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
    assert main(["predict", str(run), str(path)]) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (PIXELS[None], [2], r"labels that the training data does not have .*'2'"),
        (PIXELS[None] / 255, [0], "must be uint8"),
        (PIXELS[:0, None], [], r"images have the shape \(0, 1, 4, 3\)"),
    ],
)
def test_invalid_image_archives_are_rejected(run, capsys, images, labels, message):
    np.savez(run.parent / "a.npz", images=images, labels=np.array(labels, np.int64))
    assert main(["evaluate", str(run), "--data", str(run.parent / "a.npz")]) == 2
    assert re.search(message, capsys.readouterr().err)
