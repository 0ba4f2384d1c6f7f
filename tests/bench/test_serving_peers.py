"""What the service is measured against is tried in several ways, and the best of them counts."""

import sys
from typing import Any

import pytest

from regard.bench import serving


def test_the_quickest_way_is_found_and_what_does_not_start_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = serving.free_port()
    running = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    failing = [sys.executable, "-c", "raise SystemExit(1)"]
    asked: list[float] = []

    def ask(address: str, bodies: Any, callers: int, seconds: float) -> dict[str, float]:
        assert address == f"http://127.0.0.1:{port}/embeddings"
        asked.append(seconds)
        return {"rate": float(len(asked))}

    monkeypatch.setattr(serving, "ask", ask)
    tried = {("torch", 16): running, ("torch", 32): running, ("optimum", 16): failing}
    rates = serving.quickest(tried, port, "/embeddings", [], 64)
    assert rates == {("torch", 16): 2.0, ("torch", 32): 4.0}
    assert serving._best_of(tried, rates) == "the best of torch 16, torch 32; optimum did not start"
    with pytest.raises(RuntimeError, match="none of them serves"):
        serving.quickest({"optimum": failing}, port, "/embeddings", [], 64)


def test_commands_name_the_engine_and_the_shape(tmp_path: Any) -> None:
    command = serving._infinity("infinity_emb", tmp_path, "optimum", 32, 80)
    assert command[command.index("--engine") + 1] == "optimum"
    assert serving._peer(tmp_path, tmp_path, 1, 2, 80)[-4:] == ["1", "2", "4", "80"]
    assert "OMP_NUM_THREADS=2" in serving._peer(tmp_path, tmp_path, 1, 2, 80)
