"""Control groups as they look on real machines, laid out in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_paddleapi.devices.cgroups import GroupMemory, MemoryGroup, memory_groups

NO_LIMIT_V1 = 9223372036854771712


class Machine:
    """A ``/proc`` and cgroup file systems below ``root``."""

    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.top = root / "sys fs"  # with a blank, which mountinfo writes as \040
        (self.proc / "self").mkdir(parents=True)
        self.mounts: list[str] = ["22 1 8:1 / / rw,relatime - ext4 /dev/root rw"]
        self.membership: list[str] = []

    def mount(self, kind: str, name: str, root: str = "/", options: str = "rw") -> Path:
        point = self.top / name
        point.mkdir(parents=True)
        escaped = str(point).replace(" ", "\\040")
        self.mounts.append(f"35 31 0:32 {root} {escaped} rw,nosuid shared:9 - {kind} {kind} {options}")
        return point

    def groups(self, *membership: str) -> tuple[MemoryGroup, ...]:
        (self.proc / "self/cgroup").write_text("".join(f"{line}\n" for line in membership))
        (self.proc / "self/mountinfo").write_text("".join(f"{line}\n" for line in self.mounts))
        return memory_groups(str(self.proc))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def v1(folder: Path, limit: int = NO_LIMIT_V1, usage: int = 0, inactive: int = 0, active: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{usage}\n")
    # The plain names leave the children out: a trap.
    (folder / "memory.stat").write_text(
        f"cache 1\ninactive_file 7\nactive_file 7\ntotal_inactive_file {inactive}\ntotal_active_file {active}\n"
    )


def v2(folder: Path, limit: str = "max", high: str = "max", usage: int = 0, inactive: int = 0, active: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.high").write_text(f"{high}\n")
    (folder / "memory.current").write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(f"anon 5\nfile 9\ninactive_file {inactive}\nactive_file {active}\n")


class TestVersion1:
    def test_every_level_up_to_the_mount_point_counts(self, machine: Machine) -> None:
        top = machine.mount("cgroup", "memory", options="rw,memory")
        for folder in (top, top / "a", top / "a/b"):
            v1(folder)
        groups = machine.groups("5:cpu,cpuacct:/x", "4:memory:/a/b", "1:name=systemd:/y")
        assert [group.folder for group in groups] == [str(top / "a/b"), str(top / "a"), str(top)]

    def test_what_is_left_is_limit_less_usage_plus_reclaimable_cache(self, machine: Machine) -> None:
        top = machine.mount("cgroup", "memory", options="rw,memory")
        v1(top / "a", limit=1000, usage=700, inactive=200, active=100)
        (group, *_) = machine.groups("4:memory:/a")
        assert group.read() == GroupMemory(1000, 1000 - 700 + 200 + 50)

    def test_the_largest_number_means_no_limit(self, machine: Machine) -> None:
        top = machine.mount("cgroup", "memory", options="rw,memory")
        v1(top, usage=700)
        (group,) = machine.groups("4:memory:/")
        assert group.limit() is None
        assert group.read() is None

    def test_the_memory_controller_may_share_its_mount(self, machine: Machine) -> None:
        machine.mount("cgroup", "cpu", options="rw,cpu,cpuacct")
        v1(machine.mount("cgroup", "both", options="rw,hugetlb,memory"), limit=500)
        (group,) = machine.groups("7:hugetlb,memory:/", "3:cpu,cpuacct:/")
        assert group.read() == GroupMemory(500, 500)

    def test_in_a_container_the_mount_shows_the_containers_part(self, machine: Machine) -> None:
        top = machine.mount("cgroup", "memory", root="/docker/abc", options="rw,memory")
        v1(top, limit=800)
        v1(top / "inner", limit=300)
        groups = machine.groups("4:memory:/docker/abc/inner")
        assert [group.limit() for group in groups] == [300, 800]

    def test_a_path_outside_of_the_mount_leaves_its_top(self, machine: Machine) -> None:
        v1(machine.mount("cgroup", "memory", root="/docker/abc", options="rw,memory"), limit=800)
        assert [group.limit() for group in machine.groups("4:memory:/elsewhere/x")] == [800]


class TestVersion2:
    def test_every_level_with_the_controller_counts(self, machine: Machine) -> None:
        top = machine.mount("cgroup2", "unified")
        (top / "memory.stat").write_text("anon 1\n")  # the real root has no memory.max
        v2(top / "user.slice", limit="9000", usage=8000)
        v2(top / "user.slice/job", limit="5000", usage=1000, inactive=10, active=20)
        groups = machine.groups("0::/user.slice/job")
        assert [group.read() for group in groups] == [GroupMemory(5000, 4020), GroupMemory(9000, 1000)]

    def test_high_is_a_limit_too(self, machine: Machine) -> None:
        v2(machine.mount("cgroup2", "unified") / "job", limit="5000", high="4000", usage=1000)
        (group,) = machine.groups("0::/job")
        assert group.read() == GroupMemory(4000, 3000)

    def test_max_means_no_limit(self, machine: Machine) -> None:
        v2(machine.mount("cgroup2", "unified") / "job", usage=1000)
        (group,) = machine.groups("0::/job")
        assert group.read() is None

    def test_more_used_than_allowed_leaves_nothing_not_less(self, machine: Machine) -> None:
        v2(machine.mount("cgroup2", "unified") / "job", limit="1000", usage=1200)
        (group,) = machine.groups("0::/job")
        assert group.read() == GroupMemory(1000, 0)

    def test_cache_that_is_all_reclaimable_leaves_no_more_than_the_limit(self, machine: Machine) -> None:
        v2(machine.mount("cgroup2", "unified") / "job", limit="1000", usage=100, inactive=900)
        (group,) = machine.groups("0::/job")
        assert group.read() == GroupMemory(1000, 1000)


def test_both_versions_at_once_are_both_looked_at(machine: Machine) -> None:
    """As where version 1 has the memory controller and version 2 is mounted beside it for systemd."""
    v1(machine.mount("cgroup", "memory", options="rw,memory") / "a", limit=700)
    machine.mount("cgroup2", "unified")
    groups = machine.groups("4:memory:/a", "0::/a")
    assert [(group.version, group.limit()) for group in groups] == [(1, 700)]


@pytest.mark.parametrize("membership", [[], ["4:memory:/a"], ["0::/a"]])
def test_without_a_hierarchy_there_are_no_groups(machine: Machine, membership: list[str]) -> None:
    assert machine.groups(*membership) == ()


def test_without_proc_there_are_no_groups(tmp_path: Path) -> None:
    assert memory_groups(str(tmp_path / "nothing")) == ()


def test_this_machines_own_groups_can_be_read() -> None:
    for group in memory_groups():
        memory = group.read()
        assert memory is None or 0 <= memory.available <= memory.limit
