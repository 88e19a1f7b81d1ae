"""Facts about devices (paddle.device), on machines with and without a GPU."""

from __future__ import annotations

import pytest

import graphopt as paddle
from graphopt.errors import DeviceError, UnsupportedError


def test_what_there_is() -> None:
    """The kinds and names of devices match."""
    device = paddle.device
    assert device.get_all_device_type()[0] == device.get_available_device()[0] == "cpu"
    gpus = [name for name in device.get_available_device() if name.startswith("gpu")]
    assert device.cuda.device_count() == len(gpus)
    assert not paddle.is_compiled_with_custom_device("npu")
    assert not paddle.is_compiled_with_cinn() and not device.is_compiled_with_ipu()
    assert paddle.is_compiled_with_distribute()
    assert device._convert_to_place("cpu") == paddle.CPUPlace()
    assert device.get_all_custom_device_type() == device.get_available_custom_device() == []


def test_waiting_and_memory() -> None:
    """Waiting works everywhere; the error for a missing GPU says that it does not exist."""
    cuda = paddle.device.cuda
    paddle.device.synchronize()
    cuda.empty_cache()
    number = cuda.device_count()
    for function in (cuda.memory_allocated, cuda.max_memory_reserved, cuda.get_device_name):
        with pytest.raises(DeviceError, match=rf"Place\(gpu:{number}\) does not exist here"):
            function(number)
    with pytest.raises(ValueError, match="expected a GPU"):
        cuda.memory_reserved("cpu")
    if number:
        assert cuda.get_device_properties(0).name == cuda.get_device_name()
        assert cuda.max_memory_allocated() >= cuda.memory_allocated()


@pytest.mark.parametrize("owner", [paddle.device, paddle.device.cuda])
def test_streams_are_refused_at_a_call(owner: object) -> None:
    stream = getattr(owner, "Stream")  # noqa: B009
    with pytest.raises(UnsupportedError, match=r"Stream is not supported: .* Instead: "):
        stream()
