from __future__ import annotations

from pathlib import Path

import pytest

from citewire_embedder.providers.model_directory import BUILT_IN, find_model
from citewire_kit.errors import StartupError


def test_the_built_in_model_is_found_without_importing_its_package() -> None:
    model = find_model(BUILT_IN)
    assert model.name == BUILT_IN
    assert (model.path / "model.safetensors").is_file()


def test_a_directorys_model_is_named_after_its_last_part(tmp_path: Path) -> None:
    (tmp_path / "my-model").mkdir()
    (tmp_path / "other").mkdir()
    model = find_model(str(tmp_path / "other" / ".." / "my-model"))
    assert (model.name, model.path) == ("my-model", tmp_path / "my-model")


@pytest.mark.parametrize("setting", ["no-such-model", "/no/such/directory", "a/b/c", "owner/name@", "../x y"])
def test_an_unknown_name_lists_the_possible_values(setting: str) -> None:
    with pytest.raises(StartupError, match="neither all-MiniLM-L6-v2, nor a directory, nor a hub name"):
        find_model(setting)


def test_an_unreachable_hub_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="model owner/name isn't a directory here, and can't be downloaded"):
        find_model("owner/name@main", cache=tmp_path)


def test_a_hub_name_is_downloaded_without_pickled_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, object]] = []

    def download(repo: str, *, revision: str | None, cache_dir: Path | None, allow_patterns: list[str]) -> str:
        asked.append((repo, revision))
        assert cache_dir is None
        assert "model.safetensors" in allow_patterns
        assert not [pattern for pattern in allow_patterns if pattern.endswith((".bin", ".pt", ".pkl", "*"))]
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert find_model("owner/name@v1.5").path == tmp_path
    assert find_model("owner/name").name == "owner/name"
    assert asked == [("owner/name", "v1.5"), ("owner/name", None)]
