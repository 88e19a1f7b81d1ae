"""The instructions of this machine's processor, as Linux names them; without JAX."""

from __future__ import annotations

import functools
import os
from pathlib import Path

# The /proc/cpuinfo words that name x86 instructions. Other words describe the kernel or microcode,
# and differ between machines that run the same code.
_INSTRUCTIONS = (
    *("sse", "ssse3", "avx", "amx", "fma", "f16c", "bmi", "adx", "aes", "vaes", "sha", "abm"),
    *("pclmul", "vpclmul", "gfni", "popcnt", "movbe", "xop", "tbm", "cx16", "lahf", "pni"),
    *("clflush", "clwb", "rdrand", "rdseed", "prefetchw", "3dnow", "movdir", "sm3", "sm4"),
)


@functools.cache
def instructions() -> frozenset[str]:
    """Read the processor's instruction sets, by their names in Linux; none elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return frozenset()
    found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    words = found.partition(":")[2].split()
    if found.startswith("flags"):
        words = [word for word in words if word.startswith(_INSTRUCTIONS)]
    return frozenset(words)


_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_CPU_ISA_HINTS", "DNNL_CPU_ISA_HINTS")
_WITHOUT_HALF = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI")


def limits() -> dict[str, str]:
    """Collect the environment settings that keep oneDNN from some instructions."""
    return {name: value for name in _LIMITS if (value := os.environ.get(name, ""))}


def limit_of_half() -> str:
    """Find the setting that keeps oneDNN from bfloat16 instructions; "" without one."""
    found = (f"{name}={value}" for name, value in limits().items() if value in _WITHOUT_HALF)
    return next(found, "")
