"""Parameters as NumPy's `.npz`."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.ir.dtypes import DType
from graphopt.ir.formats.commit import write_files


def write_npz(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write arrays by name; an existing file is replaced atomically."""
    write_files({path: [npz_bytes(arrays)]})


def npz_bytes(arrays: Mapping[str, np.ndarray[Any, Any]]) -> memoryview:
    """Serialize arrays as an `.npz` file.

    NumPy has no bfloat16, so such an array is stored as uint16, as in Paddle's own files;
    `import_model` reads it back in the declared dtype. Raises UnsupportedError for other dtypes
    that NumPy lacks.
    """
    buffer = BytesIO()
    # not np.savez, which rejects an array named `file`
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            if array.dtype.name != "bfloat16" and not DType(array.dtype.name).is_of_numpy:
                raise UnsupportedError(
                    f"'{name}' is {array.dtype.name}, which .npz does not support"
                )
            stored = array.view(np.uint16) if array.dtype.name == "bfloat16" else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(stored), allow_pickle=False)
    return buffer.getbuffer()
