"""NVIDIA GPUs: the real ``pynvml`` over a library that is made of Python functions instead of the driver's."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pynvml
import pytest

from pytest_paddleapi.devices import nvidia
from pytest_paddleapi.devices.model import (
    Device,
    DeviceKind,
    DeviceLostError,
    DeviceReadingError,
    DeviceReadingTimeoutError,
    Holder,
    MemoryReading,
)
from pytest_paddleapi.devices.nvidia import KIND, NvidiaDevice
from pytest_paddleapi.devices.processes import identify
from pytest_paddleapi.devices.readings import TimedReader

GIB = 1 << 30
UNKNOWN = 2**64 - 1


@dataclass
class Gpu:
    uuid: str
    total: int = 80 * GIB
    free: int = 60 * GIB
    processes: list[tuple[int, int]] = field(default_factory=list)
    name: str = "NVIDIA H200"
    #: NVML error by function name.
    errors: dict[str, int] = field(default_factory=dict)
    #: It is a MIG instance, not a GPU.
    mig: bool = False
    #: UUIDs of a GPU's own instances by NVML's number; None where it is not in MIG mode.
    instances: dict[int, str] | None = None


class FakeLibrary:
    """The entry points of ``libnvidia-ml.so.1`` that we use, with its calling convention."""

    def __init__(self) -> None:
        self.gpus: list[Gpu] = [Gpu("GPU-aaaa-1"), Gpu("GPU-bbbb-2"), Gpu("GPU-abcd-3")]
        self.errors: dict[str, int] = {}
        self.before: Callable[[str], None] = lambda name: None
        self.calls: list[str] = []
        #: Functions that this driver does not have.
        self.missing: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        method = getattr(type(self), "_" + name.removesuffix("_v2").removesuffix("_v3"), None)
        if method is None or name in self.missing:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.calls.append(name)
            self.before(name)
            handle = arguments[0] if arguments else None
            gpu = self._gpu(handle) if isinstance(handle, pynvml.c_nvmlDevice_t) else None
            error = (gpu.errors if gpu else self.errors).get(method.__name__[1:])
            return error if error is not None else method(self, *arguments)

        return call

    def _visible(self) -> list[Gpu]:
        return [gpu for gpu in self.gpus if not gpu.mig]

    def _gpu(self, handle: Any) -> Gpu:
        return self.gpus[ctypes.cast(handle, ctypes.c_void_p).value - 1]  # type: ignore[operator]

    def _set_handle(self, target: Any, number: int) -> int:
        target._obj.contents = pynvml.struct_c_nvmlDevice_t.from_address(number + 1)
        return 0

    def _nvmlInitWithFlags(self, flags: int) -> int:
        return 0

    def _nvmlDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self._visible())
        return 0

    def _nvmlDeviceGetHandleByIndex(self, index: Any, handle: Any) -> int:
        gpu = self._visible()[index.value]
        error = gpu.errors.get("nvmlDeviceGetHandleByIndex")
        return error if error is not None else self._set_handle(handle, self.gpus.index(gpu))

    def _nvmlDeviceGetHandleByUUID(self, uuid: Any, handle: Any) -> int:
        for number, gpu in enumerate(self.gpus):
            if gpu.uuid == uuid.value.decode():
                return self._set_handle(handle, number)
        return pynvml.NVML_ERROR_NOT_FOUND

    def _nvmlDeviceGetUUID(self, handle: Any, text: Any, length: Any) -> int:
        text.value = self._gpu(handle).uuid.encode()
        return 0

    def _nvmlDeviceGetName(self, handle: Any, text: Any, length: Any) -> int:
        text.value = self._gpu(handle).name.encode()
        return 0

    def _nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> int:
        current._obj.value = pending._obj.value = self._gpu(handle).instances is not None
        return 0

    def _nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, count: Any) -> int:
        count._obj.value = 7
        return 0

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, number: Any, instance: Any) -> int:
        uuid = (self._gpu(handle).instances or {}).get(number.value)
        places = [place for place, gpu in enumerate(self.gpus) if gpu.uuid == uuid]
        return self._set_handle(instance, places[0]) if places else pynvml.NVML_ERROR_NOT_FOUND

    def _nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        gpu = self._gpu(handle)
        memory._obj.total, memory._obj.free, memory._obj.used = gpu.total, gpu.free, gpu.total - gpu.free
        return 0

    def _nvmlDeviceGetComputeRunningProcesses(self, handle: Any, count: Any, array: Any) -> int:
        processes = self._gpu(handle).processes
        room, count._obj.value = count._obj.value, len(processes)
        if room < len(processes):
            return pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        for entry, (pid, size) in zip(array or (), processes):
            entry.pid, entry.usedGpuMemory = pid, size
        return 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    made = FakeLibrary()
    monkeypatch.setattr(pynvml, "nvmlLib", made)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return made


@pytest.fixture
def device(library: FakeLibrary) -> NvidiaDevice:
    return NvidiaDevice("GPU-bbbb-2", 1, "NVIDIA H200")


@pytest.fixture
def holder() -> Iterator[Holder]:
    with subprocess.Popen(["sleep", "600"]) as process:
        found = identify(process.pid)
        assert found is not None
        yield found
        process.kill()


class TestReading:
    def test_gives_total_and_free_of_the_gpu_with_that_uuid(self, library: FakeLibrary, device: NvidiaDevice) -> None:
        library.gpus[1].free = 7 * GIB
        assert device.read() == MemoryReading(80 * GIB, 7 * GIB, {})

    def test_follows_the_uuid_when_the_numbers_change(self, library: FakeLibrary) -> None:
        library.gpus.reverse()
        library.gpus[2].free = 5 * GIB
        assert NvidiaDevice("GPU-aaaa-1", 0, "").read().free == 5 * GIB

    def test_sums_the_contexts_of_a_process(self, library: FakeLibrary, device: NvidiaDevice, holder: Holder) -> None:
        library.gpus[1].processes = [(holder.pid, 2 * GIB), (os.getpid(), 9 * GIB), (holder.pid, 1 * GIB)]
        assert device.read((holder,)).held == {holder: 3 * GIB}

    def test_does_not_know_a_process_that_is_not_listed(self, device: NvidiaDevice, holder: Holder) -> None:
        assert device.read((holder,)).held == {}

    def test_takes_a_size_that_is_not_available_for_unknown(
        self, library: FakeLibrary, device: NvidiaDevice, holder: Holder
    ) -> None:
        library.gpus[1].processes = [(holder.pid, 2 * GIB), (holder.pid, UNKNOWN)]
        assert device.read((holder,)).held == {}

    @pytest.mark.parametrize("error", [pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_NOT_SUPPORTED])
    def test_takes_processes_that_it_may_not_list_for_unknown_and_still_reads_the_memory(
        self, library: FakeLibrary, device: NvidiaDevice, holder: Holder, error: int
    ) -> None:
        library.gpus[1].errors["nvmlDeviceGetComputeRunningProcesses"] = error
        assert device.read((holder,)) == MemoryReading(80 * GIB, 60 * GIB, {})

    def test_asks_an_older_driver_in_its_own_way(
        self, library: FakeLibrary, device: NvidiaDevice, holder: Holder
    ) -> None:
        library.gpus[1].processes = [(holder.pid, 2 * GIB)]
        library.missing = {"nvmlDeviceGetComputeRunningProcesses_v3"}
        assert device.read((holder,)).held == {holder: 2 * GIB}
        library.missing |= {"nvmlDeviceGetComputeRunningProcesses_v2"}
        pynvml._nvmlGetFunctionPointer_cache.clear()
        assert device.read((holder,)) == MemoryReading(80 * GIB, 60 * GIB, {})

    def test_does_not_take_a_new_process_with_an_old_id_for_the_holder(
        self, library: FakeLibrary, device: NvidiaDevice, holder: Holder
    ) -> None:
        library.gpus[1].processes = [(holder.pid, 2 * GIB)]
        old = Holder(holder.pid, holder.started - 1, holder.namespace)
        assert device.read((old,)).held == {}

    def test_trusts_no_id_if_one_is_from_another_namespace(
        self, library: FakeLibrary, device: NvidiaDevice, holder: Holder
    ) -> None:
        """In a container the driver may list the host's ids, and one may happen to be that of our process."""
        library.gpus[1].processes = [(holder.pid, 2 * GIB), (2**22 + 7, 1 * GIB)]
        assert device.read((holder,)).held == {}
        library.gpus[1].processes = [(holder.pid, 2 * GIB), (0, 1 * GIB)]  # hidden, not foreign
        assert device.read((holder,)).held == {holder: 2 * GIB}

    def test_counts_nothing_twice_when_memory_moves_meanwhile(
        self, library: FakeLibrary, device: NvidiaDevice, holder: Holder
    ) -> None:
        """The process takes 4 GiB just before its memory is listed for the first time, or the second."""

        def take(name: str) -> None:
            if "RunningProcesses" in name and library.gpus[1].free == 60 * GIB:
                library.gpus[1].free = 56 * GIB
                library.gpus[1].processes = [(holder.pid, 4 * GIB)]

        library.gpus[1].processes = [(holder.pid, 0)]
        library.before = take
        reading = device.read((holder,))
        assert reading.free + reading.held[holder] <= 60 * GIB

    def test_lists_no_processes_when_nobody_asks(self, library: FakeLibrary, device: NvidiaDevice) -> None:
        device.read()
        assert not any("Processes" in call for call in library.calls)


class TestErrors:
    def test_a_permission_error_is_an_error_and_not_zero_memory(
        self, library: FakeLibrary, device: NvidiaDevice
    ) -> None:
        library.gpus[1].errors["nvmlDeviceGetMemoryInfo"] = pynvml.NVML_ERROR_NO_PERMISSION
        with pytest.raises(DeviceReadingError, match=r"GPU-bbbb-2: Insufficient Permissions.*MIG"):
            device.read()

    @pytest.mark.parametrize("error", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED])
    def test_a_lost_gpu_is_told_from_one_that_does_not_answer(
        self, library: FakeLibrary, device: NvidiaDevice, error: int
    ) -> None:
        library.gpus[1].errors["nvmlDeviceGetMemoryInfo"] = error
        with pytest.raises(DeviceLostError, match="GPU-bbbb-2"):
            device.read()

    def test_a_gpu_that_is_not_there_is_an_error(self, library: FakeLibrary) -> None:
        with pytest.raises(DeviceReadingError, match="GPU-nowhere: Not Found"):
            NvidiaDevice("GPU-nowhere", 0, "").read()

    def test_a_passing_error_passes(self, library: FakeLibrary, device: NvidiaDevice) -> None:
        library.gpus[1].errors["nvmlDeviceGetMemoryInfo"] = pynvml.NVML_ERROR_UNKNOWN
        with pytest.raises(DeviceReadingError, match="Unknown Error"):
            device.read()
        library.gpus[1].errors.clear()
        assert device.read().free == 60 * GIB

    def test_a_driver_that_hangs_is_not_waited_for(self, library: FakeLibrary) -> None:
        gate = threading.Event()
        library.before = lambda name: gate.wait()
        device = NvidiaDevice("GPU-aaaa-1", 0, "", reader=TimedReader("GPU-aaaa-1", patience=0.05))
        with pytest.raises(DeviceReadingTimeoutError, match="GPU-aaaa-1: no answer"):
            device.read()
        gate.set()


def probed(environ: dict[str, str] | None = None) -> list[str]:
    return [device.uuid for device in KIND.probe(environ or {}).devices]


class TestProbe:
    def test_lists_the_gpus_by_uuid_and_index(self, library: FakeLibrary) -> None:
        found = KIND.probe({})
        assert [(device.uuid, device.index, device.model) for device in found.devices] == [
            ("GPU-aaaa-1", 0, "NVIDIA H200"),
            ("GPU-bbbb-2", 1, "NVIDIA H200"),
            ("GPU-abcd-3", 2, "NVIDIA H200"),
        ]
        assert found.why_not == ""

    def test_names_a_gpu_that_cannot_be_used_and_goes_on(self, library: FakeLibrary) -> None:
        library.gpus[1].errors["nvmlDeviceGetHandleByIndex"] = pynvml.NVML_ERROR_GPU_IS_LOST
        found = KIND.probe({})
        assert [device.index for device in found.devices] == [0, 2]
        assert found.unusable == (("GPU 1", "GPU is lost"),)

    def test_without_a_driver_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing() -> None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

        monkeypatch.setattr(pynvml, "nvmlInit", missing)
        assert KIND.probe({}).why_not == "there is no NVIDIA driver (libnvidia-ml.so.1 not found)"

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "reboot"),
            (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"),
        ],
    )
    def test_a_driver_that_does_not_work_is_a_reason(self, library: FakeLibrary, error: int, text: str) -> None:
        library.errors["nvmlInitWithFlags"] = error
        found = KIND.probe({})
        assert found.devices == ()
        assert text in found.why_not

    def test_no_gpu_at_all_is_a_reason(self, library: FakeLibrary) -> None:
        library.gpus.clear()
        assert KIND.probe({}).why_not == "NVML lists no GPU that can be used"


class TestOuterVisibility:
    @pytest.mark.parametrize(
        ("listed", "expected"),
        [
            ("2,0", ["GPU-abcd-3", "GPU-aaaa-1"]),
            ("GPU-bbbb-2", ["GPU-bbbb-2"]),
            ("GPU-bb", ["GPU-bbbb-2"]),  # CUDA takes a prefix that only one has
            (" 1 , GPU-aaaa-1", ["GPU-bbbb-2", "GPU-aaaa-1"]),
            ("0,7,1", ["GPU-aaaa-1"]),  # what stands behind an unknown one is hidden
            ("0,-1,1", ["GPU-aaaa-1"]),
            ("0,GPU-a,1", ["GPU-aaaa-1"]),  # two begin like this
        ],
    )
    def test_is_read_as_cuda_reads_it(self, library: FakeLibrary, listed: str, expected: list[str]) -> None:
        assert probed({"CUDA_VISIBLE_DEVICES": listed}) == expected

    @pytest.mark.parametrize("listed", ["", "-1", "NoDevFiles", "7"])
    def test_that_hides_everything_is_a_reason(self, library: FakeLibrary, listed: str) -> None:
        found = KIND.probe({"CUDA_VISIBLE_DEVICES": listed})
        assert found.devices == ()
        assert found.why_not == f"CUDA_VISIBLE_DEVICES={listed!r} hides every GPU"

    def test_that_names_one_twice_leaves_none_as_in_cuda(self, library: FakeLibrary) -> None:
        found = KIND.probe({"CUDA_VISIBLE_DEVICES": "0,GPU-aaaa-1"})
        assert found.devices == ()
        assert "twice" in found.why_not

    def test_a_mig_instance_is_a_device_by_its_uuid(self, library: FakeLibrary) -> None:
        library.gpus.append(Gpu("MIG-1234", total=16 * GIB, free=15 * GIB, name="H200 MIG 1g.18gb", mig=True))
        (device,) = KIND.probe({"CUDA_VISIBLE_DEVICES": "MIG-1234"}).devices
        assert (device.uuid, device.model) == ("MIG-1234", "H200 MIG 1g.18gb")
        assert device.read() == MemoryReading(16 * GIB, 15 * GIB, {})

    def test_an_unknown_mig_instance_hides_the_rest(self, library: FakeLibrary) -> None:
        assert probed({"CUDA_VISIBLE_DEVICES": "0,MIG-none,1"}) == ["GPU-aaaa-1"]


@pytest.fixture
def mig(library: FakeLibrary) -> FakeLibrary:
    """GPU 1 of three is cut into two instances, numbers 0 and 5 of NVML."""
    for uuid, size in (("MIG-1111", 18 * GIB), ("MIG-1234", 35 * GIB)):
        library.gpus.append(Gpu(uuid, total=size, free=size - GIB, name="NVIDIA H200 MIG", mig=True))
    library.gpus[1].instances = {0: "MIG-1111", 5: "MIG-1234"}
    library.gpus[1].errors["nvmlDeviceGetMemoryInfo"] = pynvml.NVML_ERROR_NO_PERMISSION
    return library


class TestMig:
    def test_the_instances_are_devices_and_their_gpu_is_none(self, mig: FakeLibrary) -> None:
        found = KIND.probe({})
        assert [(device.uuid, device.index) for device in found.devices] == [
            ("GPU-aaaa-1", 0),
            ("GPU-abcd-3", 2),
            ("MIG-1111", 3),
            ("MIG-1234", 4),
        ]
        assert found.unusable == (("GPU 1", "MIG is enabled, so only its instances can be used"),)
        assert found.devices[3].read() == MemoryReading(35 * GIB, 34 * GIB, {})
        assert KIND.visible(found.devices[2:3]) == "MIG-1111"

    def test_a_gpu_without_instances_says_how_to_get_on(self, mig: FakeLibrary) -> None:
        mig.gpus[1].instances = {}
        found = KIND.probe({})
        assert [device.index for device in found.devices] == [0, 2]
        assert "nvidia-smi mig -cgi" in found.unusable[0][1]

    def test_no_device_but_a_gpu_without_instances_is_a_reason(self, mig: FakeLibrary) -> None:
        mig.gpus[:] = [Gpu("GPU-bbbb-2", instances={})]
        found = KIND.probe({})
        assert found.devices == ()
        assert "MIG is enabled" in found.why_not

    @pytest.mark.parametrize("function", ["nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"])
    def test_instances_that_may_not_be_listed_are_a_reason(self, mig: FakeLibrary, function: str) -> None:
        mig.gpus[1].errors[function] = pynvml.NVML_ERROR_NO_PERMISSION
        found = KIND.probe({})
        assert [device.index for device in found.devices] == [0, 2]
        assert "Insufficient Permissions" in found.unusable[0][1]

    def test_memory_that_may_not_be_read_is_unknown_and_not_zero(self, mig: FakeLibrary) -> None:
        mig.gpus[3].errors["nvmlDeviceGetMemoryInfo"] = pynvml.NVML_ERROR_NO_PERMISSION
        device = next(device for device in KIND.probe({}).devices if device.uuid == "MIG-1111")
        with pytest.raises(DeviceReadingError, match="MIG-1111: Insufficient Permissions"):
            device.read()

    @pytest.mark.parametrize("error", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION])
    def test_a_mode_that_is_not_told_leaves_a_gpu_whose_memory_is_unknown(self, mig: FakeLibrary, error: int) -> None:
        mig.gpus[1].errors["nvmlDeviceGetMigMode"] = error
        devices = KIND.probe({}).devices
        assert [device.index for device in devices] == [0, 1, 2]
        with pytest.raises(DeviceReadingError, match="GPU-bbbb-2"):
            devices[1].read()

    @pytest.mark.parametrize(
        ("listed", "expected"),
        [
            ("1", [("MIG-1111", 3)]),  # CUDA takes the first instance of such a GPU
            ("GPU-bb,0", [("MIG-1111", 3), ("GPU-aaaa-1", 0)]),
            ("MIG-1234,MIG-1111", [("MIG-1234", 4), ("MIG-1111", 3)]),
            ("MIG-12", [("MIG-1234", 4)]),
            ("0,MIG-1,2", [("GPU-aaaa-1", 0)]),  # two begin like this
            ("3", []),  # an instance has no number for CUDA
        ],
    )
    def test_the_outer_variable_is_read_as_cuda_reads_it(
        self, mig: FakeLibrary, listed: str, expected: list[tuple[str, int]]
    ) -> None:
        devices = KIND.probe({"CUDA_VISIBLE_DEVICES": listed}).devices
        assert [(device.uuid, device.index) for device in devices] == expected

    def test_one_instance_by_two_names_leaves_none(self, mig: FakeLibrary) -> None:
        found = KIND.probe({"CUDA_VISIBLE_DEVICES": "1,MIG-1111"})
        assert found.devices == ()
        assert "MIG-1111 twice" in found.why_not

    def test_instances_that_are_only_known_by_uuid_have_numbers_of_their_own(self, mig: FakeLibrary) -> None:
        mig.gpus[1].errors["nvmlDeviceGetMigDeviceHandleByIndex"] = pynvml.NVML_ERROR_NO_PERMISSION
        devices = KIND.probe({"CUDA_VISIBLE_DEVICES": "0,MIG-1234,MIG-1111"}).devices
        assert [device.uuid for device in devices] == ["GPU-aaaa-1", "MIG-1234", "MIG-1111"]
        assert len({device.index for device in devices}) == 3
        assert all(device.index not in (1, 2) for device in devices)


def test_the_visibility_of_a_case_process_is_by_uuid(library: FakeLibrary) -> None:
    devices = KIND.probe({}).devices
    assert KIND.visible(devices[1:]) == "GPU-bbbb-2,GPU-abcd-3"
    assert (KIND.paddle_device(1), KIND.torch_device(0)) == ("gpu:1", "cuda:0")


def test_the_kind_and_its_devices_are_what_the_registry_wants(device: NvidiaDevice) -> None:
    assert isinstance(KIND, DeviceKind)
    assert isinstance(device, Device)
    assert nvidia.KIND.priority > 0
