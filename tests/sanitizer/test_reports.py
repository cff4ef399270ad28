"""Reading what a sanitizer prints: real formats, cut anywhere, and what each report is."""

from __future__ import annotations

import os
import time

import pytest

from pytest_paddleapi.process.messages import CaseResult, Stage, Verdict
from pytest_paddleapi.process.sanitizer import Sanitizer
from pytest_paddleapi.process.sanitizer_judging import judged, leftovers
from pytest_paddleapi.process.sanitizer_log import SanitizerLog
from pytest_paddleapi.process.sanitizer_reports import (
    END,
    Kind,
    Report,
    ReportParser,
    mark,
    real_findings,
    summary_errors,
)

#: As in the manual of compute-sanitizer ("Understanding Memcheck Errors"), with other names.
MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at unaligned_kernel():0x160 in memcheck_demo.cu:6
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f6510a00001 is misaligned
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: [0x2774ec]
=========                in /lib/x86_64-linux-gnu/libcuda.so.1
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to x.
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 2 errors
"""
HEADS = {
    "Invalid __shared__ read of size 16 bytes": Kind.FINDING,
    "Invalid __global__ atomic of size 8 bytes": Kind.FINDING,
    "Uninitialized __global__ memory read of size 4 bytes": Kind.FINDING,
    "Barrier error detected. Divergent thread(s) in warp": Kind.FINDING,
    "Error: Race reported between Write access at a() and Read access at b() [508 hazards]": Kind.FINDING,
    "Warning: Race reported between Write access at a() and Write access at b() [16 hazards]": Kind.FINDING,
    "Malloc/Free Error encountered: Double free": Kind.FINDING,
    "Leaked 64 bytes at 0x7f6510c00200": Kind.FINDING,
    'Program hit cudaErrorInvalidValue (error 1) due to "invalid argument" on CUDA API call to cudaFree.': Kind.FINDING,
    'Program hit CUDA_ERROR_NOT_FOUND (error 500) due to "named symbol not found" on CUDA API call to '
    "cuGetProcAddress_v2.": Kind.HARMLESS,
    'Program hit CUDA_ERROR_NOT_FOUND (error 500) due to "x" on CUDA API call to cuGetProcAddress.': Kind.HARMLESS,
    'Program hit cudaErrorInsufficientDriver (error 35) due to "x" on CUDA API call to cudaDriverGetVersion.': (
        Kind.HARMLESS
    ),
    'Program hit cudaErrorInvalidValue (error 1) due to "x" on CUDA API call to cuGetProcAddressOfMine.': Kind.FINDING,
    "COMPUTE-SANITIZER": Kind.NOTE,
    "Error: process didn't terminate successfully": Kind.NOTE,
    "Target application terminated before first instrumented API call": Kind.NOTE,
    "Error: Target application terminated before first instrumented API call": Kind.NOTE,
    "Tracking kernels launched by child processes requires the --target-processes all option.": Kind.NOTE,
    "ERROR SUMMARY: 3 errors": Kind.SUMMARY,
    "ERROR SUMMARY: 210 errors were not printed. Use --print-limit option to adjust": Kind.SUMMARY,
    "LEAK SUMMARY: 64 bytes leaked in 1 allocations": Kind.SUMMARY,
    "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)": Kind.SUMMARY,
    "Something that nobody has seen yet": Kind.NOTE,
}


def parsed(text: str) -> ReportParser:
    parser = ReportParser()
    for line in text.splitlines():
        parser.feed(line)
    parser.close()
    return parser


@pytest.mark.parametrize("head", HEADS)
def test_the_first_line_says_what_it_is(head: str) -> None:
    assert Report(head, 1, Stage.PADDLE).kind is HEADS[head]


def test_a_report_of_an_unknown_kind_is_a_finding_by_what_stands_below() -> None:
    assert Report("New kind of trouble", 1, None, ["     by thread (0,0,0) in block (0,0,0)"]).kind is Kind.FINDING


def test_reports_are_cut_at_their_first_lines() -> None:
    found = parsed(MEMCHECK).take_rest()
    assert [report.head.split()[0] for report in found] == ["Invalid", "Program", "ERROR"]
    assert found[0].text.splitlines()[-1].endswith("in /lib/x86_64-linux-gnu/libcuda.so.1")
    assert len(found[0].lines) == 6
    assert summary_errors(found) == 2


def test_colours_and_carriage_returns_are_passed_over() -> None:
    parser = ReportParser()
    parser.feed("\x1b[31m========= Invalid __global__ write of size 4 bytes\x1b[0m\r")
    assert [report.head for report in parser.take_rest()] == ["Invalid __global__ write of size 4 bytes"]


def test_marks_say_whose_a_report_is() -> None:
    text = "\n".join(
        [
            "========= Invalid A",
            mark(7, "reference").decode(),
            "========= Invalid B",
            mark(7, "paddle").decode(),
            "a word of a program",
            "========= Invalid C",
            mark(7, END).decode(),
            "========= Invalid D",
            mark(8, "paddle").decode(),
            "========= Invalid E",
        ]
    )
    parser = parsed(text)
    assert parser.ended == 7
    assert [(r.head, r.stage) for r in parser.take(7)] == [
        ("Invalid B", Stage.REFERENCE),
        ("Invalid C", Stage.PADDLE),
    ]
    assert [r.head for r in parser.take(8)] == ["Invalid E"]
    assert [r.head for r in parser.take_rest()] == ["Invalid A", "Invalid D"]


def test_a_mark_in_an_open_line_is_seen() -> None:
    parser = parsed("a word without an end" + mark(3, "paddle").decode() + "========= Invalid A")
    assert [r.head for r in parser.take(3)] == ["Invalid A"]


def test_floods_are_bounded() -> None:
    parser = ReportParser()
    for _ in range(1000):
        parser.feed("========= Invalid A")
        for number in range(200):
            parser.feed(f"=========     Host Frame: {number}")
    parser.feed("========= ERROR SUMMARY: 1000 errors")
    found = parser.take_rest()
    assert len(found) == 201 and summary_errors(found) == 1000
    assert all("80 more lines" in report.text for report in found[:-1])
    assert parser.counts[Kind.FINDING] == 1000


def report(name: str, stage: Stage | None = Stage.PADDLE) -> Report:
    head = next(head for head, kind in HEADS.items() if name in head)
    return Report(head, 1, stage)


def test_harmless_reports_are_kept_beside_others_only() -> None:
    harmless, finding = report("cuGetProcAddress_v2"), report("__shared__")
    assert real_findings([harmless]) == []
    assert real_findings([harmless], evidence=True) == [harmless]
    assert real_findings([harmless, finding]) == [harmless, finding]


@pytest.mark.parametrize(
    ("before", "stages", "after"),
    [
        ("pass", [Stage.PADDLE], "paddle_cuda"),
        ("paddle_accuracy", [Stage.COMPARISON], "paddle_cuda"),
        ("paddle_error", [Stage.PADDLE], "paddle_cuda"),
        ("paddle_crash", [Stage.PADDLE], "paddle_cuda"),
        ("pass", [Stage.REFERENCE], "torch_error"),
        ("pass", [Stage.REFERENCE, Stage.PADDLE], "paddle_cuda"),
        ("paddle_crash", [Stage.REFERENCE], "paddle_crash"),
        ("pass", [Stage.INPUTS], "config_input"),
        ("pass", [None], "paddle_cuda"),
        ("oom", [Stage.PADDLE], "oom"),
        ("deferred", [Stage.PADDLE], "deferred"),
        ("timeout", [Stage.PADDLE], "timeout"),
        ("external_kill", [Stage.PADDLE], "external_kill"),
    ],
)
def test_what_a_case_with_findings_ends_as(before: str, stages: list[Stage | None], after: str) -> None:
    result = judged(CaseResult(1, Verdict(before), "its own words"), [report("__shared__", stage) for stage in stages])
    assert result.verdict is Verdict(after)
    assert "its own words" in result.text and "__shared__" in result.text


def test_what_only_the_end_says() -> None:
    summary = report("ERROR SUMMARY: 3")
    assert leftovers([summary], 3, 86, 86) == ""
    assert "counted 3 errors, and printed 1" in leftovers([summary], 1, 86, 86)
    assert "exited with 86" in leftovers([], 0, 86, 86)
    assert leftovers([], 0, 0, 86) == leftovers([], 0, None, 86) == ""
    assert "64 bytes leaked" in leftovers([report("LEAK SUMMARY")], 0, 0, 86)
    assert leftovers([Report("LEAK SUMMARY: 0 bytes leaked in 0 allocations", 1, None)], 0, 0, 86) == ""
    assert leftovers([report("cuGetProcAddress_v2")], 1, 86, 86) == ""


def test_a_log_is_read_to_its_end_whatever_its_pieces() -> None:
    reading, writing = os.pipe()
    others: list[str] = []
    log = SanitizerLog(reading, others.append)
    data = b"hello\n" + mark(5, "paddle") + MEMCHECK.encode() + mark(5, END) + b"last words"
    for start in range(0, len(data), 7):
        os.write(writing, data[start : start + 7])
    assert log.await_end_of(5, 10.0)
    assert [r.head.split()[0] for r in log.take(5)] == ["Invalid", "Program", "ERROR"]
    assert not log.await_end(0.05)
    start_of_wait = time.monotonic()
    assert not log.await_end_of(6, 0.05)
    assert time.monotonic() - start_of_wait < 5.0
    os.close(writing)
    assert log.await_end(10.0)
    assert log.await_end_of(6, 10.0)
    assert others == ["hello", "last words"]


def test_options_that_the_user_gave_are_not_given_again() -> None:
    assert Sanitizer(("cs",)).words == ("cs", "--target-processes", "all", "--error-exitcode=86")
    given = ("cs", "--tool", "racecheck", "--target-processes=application-only", "--error-exitcode", "5")
    assert Sanitizer(given).words == given
