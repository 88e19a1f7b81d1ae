"""Files of other tools: recognize them by their content, and suggest a remedy."""

from __future__ import annotations

import re
import struct
import zipfile
from io import BytesIO

_BY_ONNX = "convert the model to ONNX with tf2onnx, or save the model with Paddle"
_ONNX = "an ONNX file, which is a model with its parameters; give this file as the model"
_TENSORFLOW = f"a TensorFlow model; {_BY_ONNX}"
_TORCH = (
    "a PyTorch checkpoint, which holds arrays and no program; save the model with Paddle, and "
    "the arrays by name as .npz or .safetensors for --params"
)
_SCRIPT = (
    "a TorchScript model; export the model to ONNX with torch.onnx.export, or save the model "
    "with Paddle"
)

_DAMAGED = "a damaged zip file"
_NPZ = "NumPy arrays (.npz), not a model; give the file to --params or --input"
_NPY = "a NumPy array, not a model; give the file to --input"
_SAFETENSORS = (
    "parameters as .safetensors, without a program; give the file to --params, with a model"
)

# The first bytes of files given by mistake. A ProgramDesc begins with its blocks, 0x0a.
_STARTS = {
    b"\x89HDF": f"an HDF5 file, such as a Keras model; {_BY_ONNX}",
    b"\x1f\x8b": "a gzip file; unpack it first",
    b"\x93NUMPY": _NPY,
    b"GGUF": "a GGUF file, which holds arrays and no program; save the model with Paddle",
    b"ML\xefR": "MLIR bytecode, such as StableHLO; give the model that the file was exported from",
    b"%PDF": "a PDF document, not a model",
    b"\x89PNG": "an image, not a model; --input takes arrays (.npz, .npy)",
    b"\xff\xd8\xff": "an image, not a model; --input takes arrays (.npz, .npy)",
}
_IR = re.compile(r"func\.func|builtin\.module|\bpd\.\w+")
_IMPORT = re.compile(r"^\s*(?:import|from)\s+\w", re.MULTILINE)
# the first number in a checkpoint of PyTorch before 1.6
_TORCH_MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
# a message that begins with a message of two strings: TensorFlow's node, with its name and type
_GRAPH_DEF = re.compile(
    rb"\x0a[\x80-\xff]{0,3}[\x00-\x7f]\x0a[\x01-\x7f][\w./^-]+\x12[\x01-\x7f]\w"
)


def foreign_kind(data: bytes) -> str | None:
    """Name the kind of a file that is no Paddle program, with a remedy; None if it may be one."""
    for start, kind in _STARTS.items():
        if data.startswith(start):
            return kind
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_kind(data)
    if data.startswith(b"\x80"):
        return _TORCH if data.startswith(_TORCH_MAGIC) or b"torch" in data[:4096] else None
    if data.startswith(b"\x08"):
        # the version of a SavedModel is 1, which no ONNX file has had since 2017
        return _TENSORFLOW if data.startswith(b"\x08\x01\x12") else _ONNX
    if data[4:8] == b"TFL3":
        return f"a TensorFlow Lite model; {_BY_ONNX}"
    if len(data) > 8 and data[8:9] == b"{" and 0 < struct.unpack("<Q", data[:8])[0] < len(data):
        return _SAFETENSORS
    if _GRAPH_DEF.match(data):
        return _TENSORFLOW
    return _text_kind(data)


def foreign_arrays(data: bytes, takes_safetensors: bool) -> str | None:
    """Name the kind of a file without arrays for a model; None if it may hold arrays."""
    kind = foreign_kind(data)
    taken = (_NPZ, _NPY, _DAMAGED, *((_SAFETENSORS,) if takes_safetensors else ()))
    return None if kind in taken else kind


def is_ir(text: str) -> bool:
    """Return whether a text contains operations of graphopt's programs."""
    return _IR.search(text) is not None


def _zip_kind(data: bytes) -> str:
    """Name the kind of a zip file by its members."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return _DAMAGED
    if any(name.endswith("/data.pkl") or name == "data.pkl" for name in names):
        return _SCRIPT if any("/code/" in name for name in names) else _TORCH
    if "model.weights.h5" in names:
        return f"a Keras model; {_BY_ONNX}"
    if names and all(name.endswith(".npy") for name in names):
        return _NPZ
    return "a zip file; unpack it first"


def _text_kind(data: bytes) -> str | None:
    """Name the kind of a text; None for data that are not plain text."""
    if not data:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if not all(character.isprintable() or character in "\t\r\n\f" for character in text):
        return None
    if text.lstrip().startswith(("{", "[")):  # another JSON file: Paddle 3's reader explains it
        is_notebook = '"nbformat"' in text
        return "a notebook; graphopt run runs its code as a script" if is_notebook else None
    if "<net " in text[:4096]:
        return "an OpenVINO model; give the model that the file was converted from"
    if is_ir(text):
        return "a program as text, which graphopt-opt reads, not a saved model"
    if _IMPORT.search(text):
        return (
            "a Python script, not a saved model; graphopt run SCRIPT.py runs one, and graphopt "
            "explain and graphopt report show its programs"
        )
    return (
        "a text file, not a saved model; graphopt run SCRIPT.py runs a script, whose name ends "
        "with .py"
    )
