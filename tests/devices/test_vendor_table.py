"""The tables that vendors' tools print."""

from __future__ import annotations

import pytest

from pytest_paddleapi.devices.vendor_table import VendorRow, VendorTableError, parse_table

MIB = 1 << 20

XPU_SMI = """\
Mon Jan  5 10:00:00 2026
+-----------------------------------------------------------------------------+
| XPU-SMI 5.0.21   Driver Version: 5.0.21   XPU-RT Version: 5.0.21             |
|-------------------------------+----------------------+----------------------+
| XPU  Name                     | Bus-Id               | XPU-Util             |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage |          Compute M.  |
|===============================+======================+======================|
|   0  P800 OAM           N/A   | 00000000:52:00.0 N/A |                    0 |
| N/A   38C  N/A     86W / 400W |   2048MiB / 98304MiB |      0%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+
|   1  P800 OAM           N/A   | 00000000:56:00.0 N/A |                    0 |
| N/A   37C  N/A     88W / 400W |      0MiB / 98304MiB |      0%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  XPU   XI   CI        PID   Type   Process name                  XPU Memory |
|=============================================================================|
|    0   N/A  N/A      4711      C   python                           1234MiB |
|    7   N/A  N/A      4712      C   1MiB / 2MiB                         1MiB |
+-----------------------------------------------------------------------------+
"""

IXSMI = """\
Timestamp    Mon Jan  5 10:00:00 2026
+-----------------------------------------------------------------------------+
|  IX-ML: 4.2.0       Driver Version: 4.2.0       CUDA Version: 10.2          |
|-------------------------------+----------------------+----------------------|
| GPU  Name                     | Bus-Id               | Clock-SM  Clock-Mem  |
| Fan  Temp  Perf  Pwr:Usage/Cap|      Memory-Usage    | GPU-Util  Compute M. |
|===============================+======================+======================|
| 0    Iluvatar BI-V150         | 00000000:8A:00.0     | 1500MHz   1600MHz    |
| N/A  35C   P0    55W / 350W   | 64MiB / 32768MiB     | 0%        Default    |
+-------------------------------+----------------------+----------------------+
| 1    Iluvatar BI-V150         | 00000000:8D:00.0     | 1500MHz   1600MHz    |
| N/A  36C   P0    N/A / N/A    | 16384MiB / 32768MiB  | 0%        Default    |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU        PID      Process name                                Usage(MiB) |
|=============================================================================|
|    0       4711      python                                      48         |
+-----------------------------------------------------------------------------+
"""


def memory(rows: dict[int, VendorRow]) -> dict[int, tuple[int | None, int | None]]:
    return {index: (row.used, row.total) for index, row in rows.items()}


def table(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_xpu_smi() -> None:
    rows = parse_table(XPU_SMI, ends_at="Processes:")
    assert rows[0] == VendorRow(0, "P800 OAM", "00000000:52:00.0", 2048 * MIB, 98304 * MIB)
    assert memory(rows) == {0: (2048 * MIB, 98304 * MIB), 1: (0, 98304 * MIB)}


def test_ixsmi() -> None:
    rows = parse_table(IXSMI, names="Iluvatar")
    assert rows[1] == VendorRow(1, "Iluvatar BI-V150", "00000000:8d:00.0", 16384 * MIB, 32768 * MIB)
    assert memory(rows) == {0: (64 * MIB, 32768 * MIB), 1: (16384 * MIB, 32768 * MIB)}


@pytest.mark.parametrize(("between", "known"), [(0, True), (6, True), (7, False)])
def test_memory_stands_within_the_next_seven_lines(between: int, known: bool) -> None:
    rows = parse_table(table("| 3 Chip |", *["| x |"] * between, "| 5MiB / 10MiB |"))
    assert memory(rows) == {3: (5 * MIB, 10 * MIB) if known else (None, None)}


def test_a_device_does_not_get_its_neighbours_memory() -> None:
    rows = parse_table(table("| 0 Chip |", "| N/A / N/A |", "| 1 Chip |", "| 5MiB / 10MiB |"))
    assert memory(rows) == {0: (None, None), 1: (5 * MIB, 10 * MIB)}


@pytest.mark.parametrize("cell", ["12MiB / 10MiB", "0MiB / 0MiB", "-1MiB / 10MiB", "N/A / 10MiB", "1.5MiB / 10MiB"])
def test_what_cannot_be_is_unknown_and_not_zero(cell: str) -> None:
    assert memory(parse_table(table("| 0 Chip |", f"| {cell} |"))) == {0: (None, None)}


@pytest.mark.parametrize("line", ["|5MiB/10MiB|", "| N/A |  5MiB /  10MiB |", "5MiB / 10MiB"])
def test_how_memory_is_framed_does_not_matter(line: str) -> None:
    assert memory(parse_table(table("|    0 Chip |", line))) == {0: (5 * MIB, 10 * MIB)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Segmentation fault\n",
        "\x00\xff|\n",
        "0 Chip |\n5MiB / 10MiB\n",
        "Processes:\n| 0 Chip |\n| 1MiB / 2MiB |\n",
    ],
)
def test_a_text_without_a_device_is_refused(text: str) -> None:
    with pytest.raises(VendorTableError, match="no line begins with"):
        parse_table(text, ends_at="Processes:")


def test_two_devices_of_one_index_are_refused() -> None:
    with pytest.raises(VendorTableError, match="two devices have the index 4"):
        parse_table(table("| 4 Chip |", "| 1MiB / 9MiB |", "| 4 Chip |", "| 2MiB / 9MiB |"))


def test_a_table_of_another_vendor_is_refused() -> None:
    with pytest.raises(VendorTableError, match="names Iluvatar"):
        parse_table(XPU_SMI, names="Iluvatar")
