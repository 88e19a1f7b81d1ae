"""`graphopt serve`: access, work and limits."""

from __future__ import annotations

import base64
import http.client
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphopt.playground import server, work
from graphopt.playground.server import LARGEST, Playground, examples
from graphopt_tests.report.test_report import data_of

MODELS = Path(__file__).parents[1] / "data" / "models"
FLAGS = "fuse_gemm_epilogue,fuse_bn_act_ops,fuse_dot_product_attention"


@pytest.fixture
def playground(monkeypatch: pytest.MonkeyPatch) -> Iterator[Playground]:
    """Start a server that works in this process."""

    def answer(self: Playground, request: bytes) -> bytes:
        return b"{}"

    monkeypatch.setattr(Playground, "answer", answer)
    with Playground() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(made: Playground, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    """Return the status and the headers of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", made.server_port, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET" if body is None else "POST", path, body, named)
    found = connection.getresponse()
    found.read()
    return found.status, found.headers


def test_only_the_link_is_answered(playground: Playground) -> None:
    """Another token, host or method, or too large a request, is refused."""
    home = f"/{playground.token}/"
    status, headers = ask(playground, home)
    assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"]
    assert playground.server_address[0] == "127.0.0.1" and len(playground.token) >= 20
    for path in ("/", "/work", f"/{playground.token}", f"/{playground.token}x/", f"{home}other"):
        assert ask(playground, path)[0] == 404, path
    assert ask(playground, home, Host="evil.example")[0] == 404
    as_json = {"Content_Type": "application/json"}
    assert ask(playground, f"{home}work", b"{}", **as_json)[0] == 200
    assert ask(playground, "/x/work", b"{}", **as_json)[0] == 404
    assert ask(playground, f"{home}work", b"{}", Content_Type="text/plain")[0] == 404
    assert ask(playground, f"{home}work", b"{}", Host="evil.example", **as_json)[0] == 404


def test_the_page_has_the_examples() -> None:
    """The examples are data of the page's script, and are escaped."""
    html = server.page()
    assert "{{" not in html.partition("const FLAGS")[0]
    assert all(f'"{name}"' in html for name in examples())


@pytest.mark.parametrize("name", examples())
def test_examples(name: str, tmp_path: Path) -> None:
    """Each example has outputs, and a fusion of its flag or the reason against it."""
    request = {"text": examples()[name], "flags": FLAGS}
    found = work.analyse(request, tmp_path)
    assert found["page"].startswith("<!DOCTYPE html>") and found["inputs"]
    (program,) = data_of(found["page"])["programs"]
    flag = re.match(r"//.*?(fuse_\w+)", examples()[name])
    assert flag is not None
    fired = re.search(rf">{flag[1]}<.*?>(\d+) of (\d+)<", program["overview"])
    assert fired is not None
    assert (int(fired[1]) > 0) == (name != "declined") and int(fired[2]) > 0
    ran = work.run({**request, "seed": 1, "size": 2}, tmp_path)
    assert all(each["values"] for each in ran["outputs"]) and ran["random"]


def dropped(path: Path) -> dict[str, Any]:
    """Encode a file as the page sends it."""
    return {"name": path.name, "data": base64.b64encode(path.read_bytes()).decode()}


def test_a_model_with_its_parameters(tmp_path: Path) -> None:
    """The text has no weights, inputs give the right outputs, and a second model is compared."""
    folder = MODELS / "infer_lenet"
    files = [dropped(folder / f"model.{suffix}") for suffix in ("pdmodel", "pdiparams")]
    second = {"files": [dropped(MODELS / "infer_resnet18" / "model.pdmodel")]}
    found = work.analyse({"files": files, "flags": FLAGS, "against": second}, tmp_path)
    assert found["title"] == "model.pdmodel" and len(found["text"]) < 5000
    with np.load(folder / "inputs.npz") as inputs, np.load(folder / "outputs.npz") as outputs:
        given = {name: array.tolist() for name, array in inputs.items()}
        wanted = outputs["out0"].reshape(-1)[:3]
    ran = work.run({"files": files, "inputs": given}, tmp_path)
    values = [float(each) for each in ran["outputs"][0]["values"][:3]]
    np.testing.assert_allclose(values, wanted, rtol=1e-3, atol=1e-5)
    assert ran["random"] == []


def test_an_onnx_file(tmp_path: Path) -> None:
    """An ONNX file is a model with its parameters."""
    onnx = pytest.importorskip("onnx")
    values = [onnx.helper.make_tensor_value_info(name, 1, [2, 3]) for name in "xy"]
    weights = [onnx.numpy_helper.from_array(np.full((3, 3), 2, np.float32), "w")]
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    onnx.save(onnx.helper.make_model(graph), tmp_path / "m.onnx")
    files = [dropped(tmp_path / "m.onnx")]
    assert "pd.matmul" in work.analyse({"files": files, "flags": ""}, tmp_path)["text"]
    given = {"x": [[1.0, 2, 3], [0, 0, 1]]}
    ran = work.run({"files": files, "inputs": given}, tmp_path)
    assert [float(each) for each in ran["outputs"][0]["values"]] == [12, 12, 12, 2, 2, 2]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"text": "func.func @main("}, "program:1"),
        ({"text": "import os"}, "program:1"),
        ({"files": [{"name": "../../x.py", "data": ""}]}, "suffix should be one of .mlir"),
        ({"files": [{"name": "a.mlir", "data": ""}, {"name": "b.mlir", "data": ""}]}, "drop one"),
        ({"text": examples()["linear"], "flags": "fuse_gem"}, "did you mean"),
    ],
)
def test_mistakes(request_: dict[str, Any], words: str, tmp_path: Path) -> None:
    """An invalid program is refused with its reader's message; no file is written elsewhere."""
    with pytest.raises((*work._OF_INPUT, AttributeError)) as caught:
        work.analyse(request_, tmp_path)
    assert words in str(caught.value)
    assert {path.parent.parent for path in tmp_path.rglob("*.mlir")} <= {tmp_path}


@pytest.mark.slow
def test_work_has_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process answers; an infinite loop is stopped, and the server goes on."""
    loop = """
    func.func @main(feed %x: tensor<1xi1>) -> (fetch "y": tensor<1xi1>) {
      %y = pd.while(%x, carried = [%x]) : (tensor<1xi1>, tensor<1xi1>) -> tensor<1xi1> {
      ^bb0(%c: tensor<1xi1>):
        %t = pd.full() {shape = [1], value = 1.0, dtype = i1}
        pd.yield(values = [%t, %t]) : (tensor<1xi1>, tensor<1xi1>) -> ()
      }
      func.return %y : tensor<1xi1>
    }
    """
    with Playground() as made:
        for _ in range(2):
            asked = {"action": "run", "text": examples()["linear"]}
            found = json.loads(made.answer(json.dumps(asked).encode()))
            assert found["outputs"][0]["name"] == "scores"
            monkeypatch.setattr(server, "PATIENCE", 5)
            asked = {"action": "run", "text": loop, "inputs": {"x": [True]}}
            found = json.loads(made.answer(json.dumps(asked).encode()))
            assert found == {"error": "stopped after 5 seconds"}
            monkeypatch.undo()
    assert LARGEST < 1 << 30
