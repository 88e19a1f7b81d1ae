"""The language server as an editor talks to it; needs the extra `editor`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("pygls", reason="needs the extra `editor`")

URI = "file:///program.mlir"
TEXT = """func.func @main(feed %x: tensor<?x4xf32>) -> (fetch "y": tensor<?x4xf32>) {
  %a = pd.exp(%x)
  %b = pd.exp(%x)
  %y = pd.add(%a, %b)
  func.return %y : tensor<?x4xf32>
}
"""


class Editor:
    """A client of `graphopt lsp` in a process."""

    def __init__(self) -> None:
        self.server = subprocess.Popen(
            [sys.executable, "-m", "graphopt", "lsp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.last = 0

    def send(self, method: str, params: Any, *, answered: bool = True) -> Any:
        """Send a request and return its result; a notification has none."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if answered:
            self.last += 1
            message["id"] = self.last
        data = json.dumps(message).encode()
        assert self.server.stdin is not None
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.server.stdin.flush()
        return self.until(lambda got: got.get("id") == self.last)["result"] if answered else None

    def until(self, wanted: Any) -> dict[str, Any]:
        """Return the next message of the server that `wanted` accepts."""
        assert self.server.stdout is not None
        while True:
            length = 0
            while (line := self.server.stdout.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            assert length, "the server has ended"
            got = json.loads(self.server.stdout.read(length))
            if wanted(got):
                return got

    def problems(self) -> list[Any]:
        """Return the next diagnostics."""
        method = "textDocument/publishDiagnostics"
        return self.until(lambda got: got.get("method") == method)["params"]["diagnostics"]


def test_a_session() -> None:
    """An editor opens a file, hovers, runs passes, types an error and closes the file."""
    editor = Editor()
    try:
        editor.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        editor.send("initialized", {}, answered=False)
        document = {"uri": URI, "languageId": "mlir", "version": 1, "text": TEXT}
        editor.send("textDocument/didOpen", {"textDocument": document}, answered=False)
        assert editor.problems() == []
        place = {"textDocument": {"uri": URI}, "position": {"line": 3, "character": 3}}
        hover = editor.send("textDocument/hover", place)
        assert "tensor<?x4xf32>" in hover["contents"]["value"]
        command = {"command": "graphopt.afterPasses", "arguments": [URI, "cse"]}
        assert editor.send("workspace/executeCommand", command).count("pd.exp(") == 1
        change = {
            "textDocument": {"uri": URI, "version": 2},
            "contentChanges": [{"text": TEXT.replace("pd.add(", "pd.addd(")}],
        }
        editor.send("textDocument/didChange", change, answered=False)
        (problem,) = editor.problems()
        assert problem["range"]["start"] == {"line": 3, "character": 7}
        editor.send("shutdown", None)
        editor.send("exit", None, answered=False)
        assert editor.server.wait(20) == 0
    finally:
        editor.server.kill()
        editor.server.communicate()
