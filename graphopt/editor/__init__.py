"""The language server for `.mlir` files of the pd dialect."""
