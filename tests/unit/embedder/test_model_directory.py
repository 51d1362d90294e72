from __future__ import annotations

from pathlib import Path

import pytest

from citewire_embedder.providers.base import Prompts
from citewire_embedder.providers.encoder import Pooling
from citewire_embedder.providers.model_directory import read_directory
from citewire_kit.errors import StartupError
from tiny_models import POSITIONS, ROBERTA_PAD, TinyModel, make_pooling, write_json, write_model


def refusal(path: Path) -> str:
    with pytest.raises(StartupError) as caught:
        read_directory(path)
    return str(caught.value)


def test_a_directory_is_read(tmp_path: Path) -> None:
    write_model(tmp_path, TinyModel(sentence_config={"do_lower_case": True}))
    directory = read_directory(tmp_path)
    assert (directory.pooling, directory.max_tokens, directory.lower_case) == (Pooling.MEAN, 12, True)
    assert directory.encoder is not None
    assert directory.prompts == Prompts()
    assert directory.weights == tmp_path / "model.safetensors"


def test_the_transformer_may_be_in_a_folder_of_its_own(tmp_path: Path) -> None:
    write_model(tmp_path / "0_Transformer", TinyModel())
    modules = [{"path": "0_Transformer", "type": "Transformer"}, {"path": "1_Pooling", "type": "Pooling"}]
    write_json(tmp_path / "modules.json", modules)
    (tmp_path / "1_Pooling").mkdir()
    write_json(tmp_path / "1_Pooling" / "config.json", make_pooling("cls_token"))
    directory = read_directory(tmp_path)
    assert (directory.path, directory.pooling) == (tmp_path / "0_Transformer", Pooling.CLS)


def test_without_modules_the_directory_is_a_transformer_with_the_mean(tmp_path: Path) -> None:
    write_model(tmp_path, TinyModel(pooling="cls_token"))
    (tmp_path / "modules.json").unlink()
    assert read_directory(tmp_path).pooling is Pooling.MEAN


@pytest.mark.parametrize(("name", "pooling"), [("mean", Pooling.MEAN), ("cls", Pooling.CLS), ("max", Pooling.MAX)])
def test_a_pooling_may_be_named_as_newer_versions_do(tmp_path: Path, name: str, pooling: Pooling) -> None:
    write_model(tmp_path, TinyModel())
    write_json(tmp_path / "1_Pooling" / "config.json", {"word_embedding_dimension": 16, "pooling_mode": name})
    assert read_directory(tmp_path).pooling is pooling


@pytest.mark.parametrize("mode", ["lasttoken", "weightedmean_tokens"])
def test_other_poolings_are_refused(tmp_path: Path, mode: str) -> None:
    write_model(tmp_path, TinyModel(pooling=mode))
    assert f"pooling {mode} isn't supported; mean, cls and max are" in refusal(tmp_path)


def test_several_poolings_at_once_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path, TinyModel())
    both = {**make_pooling("mean_tokens"), "pooling_mode_max_tokens": True}
    write_json(tmp_path / "1_Pooling" / "config.json", both)
    assert "exactly one pooling" in refusal(tmp_path)


def test_other_modules_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path, TinyModel())
    write_json(tmp_path / "modules.json", [{"path": "", "type": "sentence_transformers.models.Dense"}])
    assert "modules of type Dense aren't supported" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "llama"}, "architecture llama isn't supported"),
        ({"model_type": None}, "architecture None isn't supported"),
        ({"hidden_act": "silu"}, "activation silu isn't supported"),
        ({"position_embedding_type": "relative_key"}, "position embeddings of type relative_key"),
        ({"is_decoder": True}, "decoders aren't supported"),
        ({"num_hidden_layers": "six"}, "num_hidden_layers must be a whole number, not 'six'"),
        ({"layer_norm_eps": None}, "layer_norm_eps must be a number"),
    ],
)
def test_other_architectures_are_refused_by_name(tmp_path: Path, config: dict[str, object], message: str) -> None:
    write_model(tmp_path, TinyModel(config=config))
    assert message in refusal(tmp_path)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("config.json", "config.json is missing"),
        ("tokenizer.json", "has no tokenizer.json"),
        ("model.safetensors", "neither model.safetensors nor onnx/model.onnx (pickled weights aren't loaded)"),
        ("1_Pooling/config.json", "config.json is missing"),
    ],
)
def test_missing_files_are_named(tmp_path: Path, file: str, message: str) -> None:
    write_model(tmp_path, TinyModel())
    (tmp_path / file).unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    assert message in refusal(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe"])
def test_malformed_files_are_named(tmp_path: Path, content: bytes) -> None:
    write_model(tmp_path, TinyModel())
    (tmp_path / "config.json").write_bytes(content)
    assert str(tmp_path / "config.json") in refusal(tmp_path)


@pytest.mark.parametrize(
    ("kind", "sentence", "tokeniser", "expected"),
    [
        ("bert", 12, 512, 12),
        ("bert", 12, 10, 10),
        ("bert", 9999, 10**30, POSITIONS),
        ("bert", None, 10**30, POSITIONS),
        ("roberta", None, 10**30, POSITIONS - ROBERTA_PAD - 1),
    ],
)
def test_the_window_is_the_smallest_that_a_file_names(
    tmp_path: Path, kind: str, sentence: int | None, tokeniser: int, expected: int
) -> None:
    write_model(tmp_path, TinyModel(kind=kind, max_seq_length=sentence))
    write_json(tmp_path / "tokenizer_config.json", {"model_max_length": tokeniser})
    assert read_directory(tmp_path).max_tokens == expected


@pytest.mark.parametrize(
    ("config", "prompts"),
    [
        ({"prompts": {"query": "query: ", "passage": "passage: "}}, Prompts("query: ", "passage: ")),
        ({"prompts": {"query": "query: ", "document": ""}}, Prompts("query: ", "")),
        ({"prompts": {"all": "x "}, "default_prompt_name": "all"}, Prompts("x ", "x ")),
        ({"prompts": None}, Prompts()),
    ],
)
def test_prompts_are_read(tmp_path: Path, config: dict[str, object], prompts: Prompts) -> None:
    write_model(tmp_path, TinyModel())
    write_json(tmp_path / "config_sentence_transformers.json", config)
    assert read_directory(tmp_path).prompts == prompts


def test_an_export_is_ignored_if_the_weights_can_be_built(tmp_path: Path) -> None:
    write_model(tmp_path, TinyModel())
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"")
    assert read_directory(tmp_path).encoder is not None
    (tmp_path / "model.safetensors").unlink()
    directory = read_directory(tmp_path)
    assert (directory.encoder, directory.weights) == (None, tmp_path / "onnx" / "model.onnx")
