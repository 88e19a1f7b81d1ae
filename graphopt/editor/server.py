"""The language server: problems while typing, types on hover, and programs after passes.

`graphopt.afterPasses` is a command with the URI of a document and a pipeline; its result is text.
"""

from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from graphopt.editor.document import after_passes, facts_at, problems

AFTER_PASSES = "graphopt.afterPasses"


def server(version: str) -> LanguageServer:
    """Build a server with the features above; editors show its version."""
    made = LanguageServer("graphopt", version)

    def publish(uri: str) -> None:
        document = made.workspace.get_text_document(uri)
        found = [
            types.Diagnostic(
                _range(each.line, each.start, each.end),
                each.message,
                severity=types.DiagnosticSeverity.Error,
                source="graphopt",
            )
            for each in problems(document.source, document.filename or uri)
        ]
        made.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))

    @made.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def _on_open(given: types.DidOpenTextDocumentParams) -> None:
        publish(given.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def _on_change(given: types.DidChangeTextDocumentParams) -> None:
        publish(given.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_HOVER)
    def _on_hover(given: types.HoverParams) -> types.Hover | None:
        source = made.workspace.get_text_document(given.text_document.uri).source
        text = facts_at(source, given.position.line, given.position.character)
        if not text:
            return None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))

    @made.command(AFTER_PASSES)
    def _after(uri: str, pipeline: str) -> Any:
        return after_passes(made.workspace.get_text_document(uri).source, pipeline)

    return made


def _range(line: int, start: int, end: int) -> types.Range:
    return types.Range(types.Position(line, start), types.Position(line, end))
