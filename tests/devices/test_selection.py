"""The device options: which devices, how many workers, and what is wrong with a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.devices.host import KIND as HOST
from pytest_paddleapi.devices.host import HostDevice
from pytest_paddleapi.devices.model import Device, DeviceError, Holder, MemoryReading, Probe
from pytest_paddleapi.devices.registry import DeviceRegistry
from pytest_paddleapi.devices.selection import (
    MOST_WORKERS,
    DeviceOptionError,
    DeviceOptions,
    DevicePlan,
    parse_gpu_ids,
    plan_devices,
    select_kind,
)


@dataclass(frozen=True)
class Gpu:
    index: int
    model: str = "H200"
    prefix: str = "GPU"
    free_needs_holders: bool = False

    @property
    def uuid(self) -> str:
        return f"{self.prefix}-{self.index}"

    def read(self, holders: Sequence[Holder] = ()) -> MemoryReading:
        raise AssertionError("choosing devices reads no memory")


class Kind:
    name = "nvidia"
    priority = 100
    visibility_variable: str | None = "CUDA_VISIBLE_DEVICES"

    def probe(self, environ: Mapping[str, str]) -> Probe:
        raise AssertionError("choosing devices looks for none")

    def visible(self, devices: Sequence[Device]) -> str:
        return ",".join(device.uuid for device in devices)

    def paddle_device(self, position: int) -> str:
        return f"gpu:{position}"

    def torch_device(self, position: int) -> str:
        return f"cuda:{position}"


EIGHT = [Gpu(index) for index in range(8)]


def plan(devices: Sequence[Device] = EIGHT, unusable: Sequence[tuple[str, str]] = (), **options: object) -> DevicePlan:
    return plan_devices(Kind(), devices, DeviceOptions(**options), cores=4, unusable=unusable)  # type: ignore[arg-type]


def ids(made: DevicePlan) -> list[int]:
    return [device.index for device in made.devices]


def refusal(devices: Sequence[Device] = EIGHT, unusable: Sequence[tuple[str, str]] = (), **options: object) -> str:
    with pytest.raises(DeviceOptionError) as caught:
        plan(devices, unusable, **options)
    assert isinstance(caught.value, DeviceError)
    assert str(caught.value).startswith(f"{caught.value.option}: ")
    return str(caught.value)


class TestKind:
    def test_is_chosen_by_name_or_by_itself(self) -> None:
        registry = DeviceRegistry({"cpu": HOST})
        assert select_kind(registry).kind is select_kind(registry, "cpu", {}).kind is HOST

    def test_that_is_not_known_is_named_with_those_that_are(self) -> None:
        with pytest.raises(DeviceOptionError) as caught:
            select_kind(DeviceRegistry({"cpu": HOST}), "cpy", {})
        assert str(caught.value) == (
            "--paddleapi-device: no kind of device is called 'cpy'; there are: auto, cpu. Did you mean 'cpu'?"
        )


class TestIds:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("0", (0,)),
            ("0,2,4-7", (0, 2, 4, 5, 6, 7)),
            ("3-3", (3,)),
            (" 5 , 1 - 2 ", (5, 1, 2)),
            ("-1", None),
            (" -1 ", None),
        ],
    )
    def test_are_numbers_and_ranges_in_their_order(self, text: str, expected: tuple[int, ...] | None) -> None:
        assert parse_gpu_ids(text) == expected

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("", "has an empty id"),
            ("0,,1", "has an empty id"),
            ("0,", "has an empty id"),
            ("a", "'a', which is no id"),
            ("1.5", "'1.5', which is no id"),
            ("-2", "'-2', which is no id"),
            ("0,-1", "-1 means all and stands alone"),
            ("1-", "'1-', which is no id"),
            ("1-2-3", "'1-2-3', which is no id"),
            ("0x1", "'0x1', which is no id"),
            ("٣", "which is no id"),
            ("7-4", "the range '7-4' of '7-4' runs backwards; write 4-7"),
            ("1,1", "names 1 twice"),
            ("0-3,2", "names 2 twice"),
            ("0-999999", "names 1000000 devices"),
            ("1" * 30, "which is no id"),
        ],
    )
    def test_that_are_wrong_say_what_is(self, text: str, why: str) -> None:
        with pytest.raises(DeviceOptionError) as caught:
            parse_gpu_ids(text)
        assert str(caught.value).startswith("--paddleapi-gpu-ids: ")
        assert why in str(caught.value)

    @given(st.text(alphabet="0123456789-, ", max_size=12))
    def test_are_read_or_refused_whatever_the_text(self, text: str) -> None:
        try:
            found = parse_gpu_ids(text)
        except DeviceOptionError:
            return
        assert found is None or len(set(found)) == len(found) > 0


class TestDevices:
    def test_without_options_are_all_with_one_worker_each(self) -> None:
        made = plan()
        assert ids(made) == list(range(8))
        assert made.groups == tuple((gpu,) for gpu in EIGHT)
        assert (made.workers_per_group, made.workers) == (1, 8)

    def test_are_those_that_are_named_in_that_order(self) -> None:
        assert ids(plan(gpu_ids="6,0-2")) == [6, 0, 1, 2]

    def test_minus_one_is_all(self) -> None:
        assert ids(plan(gpu_ids="-1")) == list(range(8))

    def test_a_number_takes_the_first(self) -> None:
        assert ids(plan([Gpu(5), Gpu(2), Gpu(3)], num_gpus=2)) == [5, 2]

    def test_a_number_that_agrees_with_the_ids_is_fine(self) -> None:
        assert ids(plan(gpu_ids="1,3", num_gpus=2)) == [1, 3]
        assert ids(plan(gpu_ids="-1", num_gpus=8)) == list(range(8))

    @pytest.mark.parametrize("gpu_ids", ["1,3", "-1"])
    def test_a_number_that_does_not_is_refused(self, gpu_ids: str) -> None:
        text = refusal(gpu_ids=gpu_ids, num_gpus=3)
        assert text.startswith(f"--paddleapi-num-gpus: 3 does not match --paddleapi-gpu-ids={gpu_ids}, which names ")

    def test_unknown_ids_are_named_and_so_are_the_known(self) -> None:
        text = refusal([Gpu(0), Gpu(1), Gpu(4, "A100")], gpu_ids="0,2-4")
        assert text == "--paddleapi-gpu-ids: no device has the id 2, 3; there are 3: 0-1 (H200), 4 (A100)"

    def test_many_unknown_ids_are_not_all_named(self) -> None:
        assert "8, 9, 10, 11, 12, 13, 14, 15, 16, 17 and 983 more" in refusal(gpu_ids="0-1000")

    def test_an_unusable_device_is_named_with_its_reason(self) -> None:
        text = refusal([Gpu(0)], [("GPU 1", "GPU is lost")], gpu_ids="1")
        assert text.endswith("no device has the id 1; there is 1: 0 (H200); not usable: GPU 1 (GPU is lost)")

    def test_more_than_there_are_is_refused(self) -> None:
        assert refusal(num_gpus=9) == "--paddleapi-num-gpus: 9 are asked for, but there are 8: 0-7 (H200)"

    @pytest.mark.parametrize("number", [0, -1, -8])
    def test_less_than_one_is_refused(self, number: int) -> None:
        assert refusal(num_gpus=number).startswith(f"--paddleapi-num-gpus: {number} is not possible; give 1 or more")
        assert refusal(workers_per_gpu=number).startswith(f"--paddleapi-workers-per-gpu: {number} is not possible")


class TestWorkers:
    def test_are_so_many_on_each_device(self) -> None:
        made = plan(gpu_ids="0,1", workers_per_gpu=3)
        assert (made.workers_per_group, made.workers, len(made.groups)) == (3, 6, 2)

    def test_are_sixty_four_at_most(self) -> None:
        assert plan(workers_per_gpu=8).workers == MOST_WORKERS == 64
        text = refusal(workers_per_gpu=9)
        assert text.startswith("--paddleapi-workers-per-gpu: 8 devices with 9 on each make 72 workers; 64 at most")

    def test_of_too_many_devices_are_refused(self) -> None:
        many = [Gpu(index) for index in range(65)]
        assert refusal(many).startswith("--paddleapi-gpu-ids: 65 devices with 1 on each make 65 workers")
        assert plan(many, num_gpus=64).workers == 64


class TestPairs:
    def test_are_consecutive_devices_with_one_worker(self) -> None:
        made = plan(gpu_ids="0,3,5,4", pairs=True)
        assert [[device.index for device in group] for group in made.groups] == [[0, 3], [5, 4]]
        assert (made.workers, made.workers_per_group) == (2, 1)

    def test_of_an_odd_number_are_refused(self) -> None:
        assert "3 is an odd number" in refusal(gpu_ids="0-2", pairs=True)
        assert refusal(num_gpus=1, pairs=True).startswith(
            "--paddleapi-num-gpus: this mode takes devices in pairs, and 1 "
        )
        assert "there are 3: 0-2 (H200)" in refusal(EIGHT[:3], pairs=True)
        alone = "--paddleapi-device: this mode takes devices in pairs, and there is only one"
        assert refusal(EIGHT[:1], pairs=True).startswith(alone)

    def test_have_one_worker_each(self) -> None:
        assert "one worker a pair" in refusal(pairs=True, workers_per_gpu=2)
        assert plan(pairs=True, workers_per_gpu=1).workers == 4

    def test_of_mig_instances_cannot_be(self) -> None:
        assert "no process can see two like MIG-2" in refusal([Gpu(2, prefix="MIG"), Gpu(3, prefix="MIG")], pairs=True)

    def test_of_many_devices_count_as_one_group_each(self) -> None:
        assert plan([Gpu(index) for index in range(128)], pairs=True).workers == 64


class TestHost:
    def host(self, cores: int = 4, **options: object) -> DevicePlan:
        return plan_devices(HOST, [HostDevice()], DeviceOptions(**options), cores=cores)  # type: ignore[arg-type]

    @pytest.mark.parametrize(("cores", "workers"), [(1, 1), (4, 4), (64, 64), (256, 64), (0, 1)])
    def test_has_a_worker_for_each_core(self, cores: int, workers: int) -> None:
        made = self.host(cores)
        assert (made.workers, len(made.groups), len(made.devices)) == (workers, 1, 1)

    @pytest.mark.parametrize(
        ("name", "value", "option"),
        [
            ("gpu_ids", "0", "--paddleapi-gpu-ids"),
            ("gpu_ids", "-1", "--paddleapi-gpu-ids"),
            ("num_gpus", 1, "--paddleapi-num-gpus"),
            ("workers_per_gpu", 1, "--paddleapi-workers-per-gpu"),
        ],
    )
    def test_takes_no_option_about_gpus(self, name: str, value: object, option: str) -> None:
        with pytest.raises(DeviceOptionError, match=f"{option}: there is no GPU here"):
            self.host(**{name: value})

    def test_has_no_pairs(self) -> None:
        with pytest.raises(DeviceOptionError, match="needs two GPUs, and there is no GPU here"):
            self.host(pairs=True)
