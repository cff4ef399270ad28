"""The page in a real browser: what it shows, what it lets people do, and what it does not let texts do."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_paddleapi.reports import collect, page_data, write_report
from pytest_paddleapi.results.verdicts import Verdict

from .chromium import Page
from .stores import GIB, attempt, failure, many, write_many

Report = Callable[..., Path]

ABS = 'paddle.abs(Tensor([2, 3],"float32"))'
EXP = 'paddle.exp(Tensor([4],"float16"), name="it\'s")'
GELU = 'paddle.nn.functional.gelu(Tensor([7],"int64"), Tensor([7],"bfloat16"))'
SVD = 'paddle.linalg.svd(Tensor([9, 9],"float64"))'
FOUR = (
    attempt(ABS, measured={"seconds": 0.5, "peak_bytes": 3 * GIB, "max_abs_diff": 0.0, "max_rel_diff": 0.0,
                           "tolerance": "atol 0.0001, rtol 1.3e-05 (x)"}),
    attempt(EXP, Verdict.PADDLE_ACCURACY, failure=failure(EXP, Verdict.PADDLE_ACCURACY, "output 0: 2 of 4 differ")),
    attempt(GELU, Verdict.TIMEOUT, extra={"paddle_forward_ms": 4.0, "notes": "slow"}),
    attempt(SVD, Verdict.NOT_SUPPORTED, failure="Skipped: not_supported: no kernel", measured={"seconds": 2.0}),
)  # fmt: skip


def configs(page: Page) -> list[str]:
    return page.texts("table.cases tbody td.config")


def test_it_counts_and_lists_failures_first(page: Page, report: Report) -> None:
    page.open(report(*FOUR))
    assert page.texts(".headline") == ["4 cases, 2 failed (50 %)"]
    assert configs(page) == [EXP, GELU, SVD, ABS]
    assert page.run("document.title").startswith("2 failures in 4 cases")
    assert page.texts(".choices .tag") == ["paddle_accuracy", "timeout", "not_supported", "pass"]


def test_a_failure_shows_what_it_said_and_its_command(page: Page, report: Report) -> None:
    page.open(report(*FOUR))
    page.click("table.cases tbody button")
    config, said, command = page.texts("#details pre")
    assert config == EXP
    assert said == "paddle_accuracy: output 0: 2 of 4 differ"
    assert shlex.split(command) == ["pytest", "--accuracy", "--paddleapi-threads=2", f"--paddleapi-config={EXP}"]
    page.press("j", "j")
    assert page.texts("#details pre")[0] == GELU
    assert "slow" in page.texts("#details dd")
    page.press("Escape")
    assert page.run("document.getElementById('details').open") is False
    assert page.run("document.activeElement.innerText") == GELU


def test_the_command_is_copied(page: Page, report: Report) -> None:
    page.open(report(*FOUR))
    page.click("table.cases tbody button")
    page.run("window.copied = null; document.addEventListener('copy', () => { copied = String(getSelection()) || "
             "document.activeElement.value; })")  # fmt: skip
    page.run("navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed'))")
    page.click("#details .command button")
    page.settle()
    assert page.run("copied") == page.texts("#details pre")[2]
    assert page.texts("#details .command button") == ["Copied"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("abs", [ABS]),
        ("SVD float64", [SVD]),
        ("output", [EXP]),
        ("-float", []),
        ("tensor -timeout -output", [SVD, ABS]),
    ],
)
def test_search(page: Page, report: Report, words: str, found: list[str]) -> None:
    page.open(report(*FOUR))
    page.press("/", "/")
    assert page.run("document.activeElement.id") == "search"
    page.type(words)
    assert configs(page) == found
    assert page.texts("#shown") == [f"{len(found)} of 4 cases"]


def test_sorting_says_so_and_puts_what_is_missing_last(page: Page, report: Report) -> None:
    page.open(report(*FOUR))
    page.click("table.cases th.excess button")
    assert page.run("document.querySelector('th.excess').getAttribute('aria-sort')") == "descending"
    assert configs(page)[:2] == [EXP, ABS]
    page.click("table.cases th.excess button")
    assert page.run("document.querySelector('th.excess').getAttribute('aria-sort')") == "ascending"
    assert configs(page)[:2] == [ABS, EXP]
    page.click("table.cases th.seconds button")
    assert configs(page)[:2] == [SVD, ABS]


def test_every_overview_leads_to_its_cases(page: Page, report: Report) -> None:
    page.open(report(*FOUR))
    for selector, number, found in (
        ("#totals .choices button", 1, [GELU]),
        ("#map td button", 0, [EXP]),
        ("#histogram td button", 0, [ABS]),
        ("#slowest td button", 0, None),
    ):
        page.click(selector, number)
        assert found is None or configs(page) == found, selector
    assert page.texts("#details pre")[0] == SVD
    page.press("Escape")
    page.click(".filters > button")
    page.click("#timing td button")
    assert page.texts("table.cases th.extra") == ["paddle_forward_ms ↓"]
    assert configs(page)[0] == GELU


def test_since_an_earlier_run(page: Page, report: Report) -> None:
    gone = attempt("paddle.sin()")
    before = (
        attempt(ABS, Verdict.OOM),
        attempt(EXP),
        dataclasses.replace(FOUR[2], extra={"paddle_forward_ms": 2.0}),
        gone,
    )
    page.open(report(*FOUR, since=before))
    told = dict(zip(page.texts("#comparison .tag"), page.texts("#comparison b")))
    assert told == {"new": "1", "fixed": "1", "changed": "0", "added": "1", "same": "1"}
    assert "1 case of the earlier run are not in this one: 1 pass." in page.texts("#comparison .note")
    page.click("#comparison button")
    assert configs(page) == [EXP]
    assert page.texts("#timing div:last-child td") == ["2", "2", "4", "paddle_forward_ms", GELU]


def test_devices_in_time(page: Page, report: Report) -> None:
    def at(config: str, start: float, end: float, device: str, gib: int) -> object:
        return attempt(config, device=device, started=1e6 + start, ended=1e6 + end, lease_bytes=gib * GIB)

    rerun = attempt(SVD, Verdict.DEFERRED, device="GPU-2", started=1e6, ended=1e6 + 1)
    page.open(report(at(ABS, 0, 4, "GPU-1", 2), at(EXP, 2, 6, "GPU-1", 3), at(GELU, 6, 8, "GPU-1", 4), rerun,
                     at(SVD, 1, 2, "GPU-2", 1)))  # fmt: skip
    first, second = page.texts("#timeline figcaption")
    assert first.startswith("GPU-1 3 attempts · 1 slot · busy 100.0 % · at most 2 at once · at most 5.00 GiB promised")
    assert second.startswith("GPU-2 2 attempts · 1 slot · busy 25 % · at most 1 at once · 1 rerun")
    assert page.texts("#timeline .axis span") == ["0.0 s", "2.0 s", "4.0 s", "6.0 s", "8.0 s"]


HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror='window.hacked=1'>",
    "<!--<script>",
    "\u2028\u2029",
    "\u202eabc\u2066",
    "\x00\x1b[31m\x7f",
    "\udc80\ud800",
    "`${window.hacked=1}`",
    "javascript:window.hacked=1",
    "'; window.hacked=1; '",
)


def test_hostile_texts_stay_texts(page: Page, report: Report) -> None:
    cases = []
    for number, text in enumerate(HOSTILE):
        config = f'paddle.abs{text}(Tensor([{number}],"float32"), name="{text}")'
        told = failure(config, Verdict.PADDLE_ERROR, text)
        cases.append(attempt(config, Verdict.PADDLE_ERROR, failure=told, api=f"paddle.abs{text}", stdout=text,
                             device=text, slot=text, file=text, extra={text: 1.0, "notes": text}))  # fmt: skip
    page.open(report(*cases, since=tuple(cases[:3])))
    for number in range(len(HOSTILE)):
        page.click("table.cases tbody td.config button", number)
        for shown in page.texts("#details pre, #details h2, #details dd"):
            assert all(char.isprintable() or char == "\n" for char in shown)
    assert page.run("window.hacked") is None
    assert page.run("document.querySelectorAll('img, iframe, object, script[src], link').length") == 0
    assert page.run("document.scripts.length") == 1, "the data's element is taken out when it is read"
    assert any("</script><script>window.hacked=1</script>" in text for text in configs(page))
    assert any("\\u202eabc\\u2066" in text for text in configs(page))


def test_the_policy_forbids_the_network_and_other_scripts(page: Page, report: Report) -> None:
    page.open(report(*FOUR))
    policy = page.run("document.querySelector('meta[http-equiv]').content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    page.expected = "Content Security Policy"
    page.run(
        "{ const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s); }"
    )
    assert page.run("window.hacked") is None
    assert page.run("fetch('file:///etc/hostname').then(() => 'read', () => 'refused')") == "refused"
    assert any("Content Security Policy" in error for error in page.errors)


def test_keys_alone_will_do(page: Page, report: Report) -> None:
    page.open(report(*(attempt(f"paddle.abs(Tensor([{number}]))") for number in range(2000))))
    page.run("document.querySelector('table.cases tbody button').focus()")
    page.press("End")
    assert page.run("document.activeElement.innerText") == "paddle.abs(Tensor([1999]))"
    page.press("PageUp")
    page.press("ArrowUp")
    row = page.run("document.activeElement.closest('tr').getAttribute('aria-rowindex')")
    assert 1900 < int(row) < 2000
    page.press("Home")
    page.press("ArrowDown")
    page.press("Enter")
    assert page.texts("#details pre")[0] == "paddle.abs(Tensor([1]))"
    assert page.run("document.querySelector('table.cases').getAttribute('aria-rowcount')") == "2001"
    assert page.run("document.querySelectorAll('table.cases tbody tr').length") < 100


def test_arrows_move_in_the_map(page: Page, report: Report) -> None:
    page.open(report(*FOUR))
    page.run("document.querySelector('#map tbody button').focus()")
    page.press("ArrowRight")
    assert "float16: 1 of 1 failed" in page.run("document.activeElement.getAttribute('aria-label')")
    page.press("ArrowLeft")
    page.press("ArrowDown")
    assert page.run("document.activeElement.innerText") == "nn.functional.gelu"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(page: Page, report: Report, scheme: str) -> None:
    """WCAG AA: 4.5 to 1 for every text, against what lies behind it."""
    page.look(scheme=scheme)
    page.open(report(*FOUR, *(attempt(f"paddle.x{n}(Tensor([1],'int8'))", Verdict.OOM) for n in range(3))))
    low = page.run(
        """(() => {
        const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
        const light = (color) => numbers(color).slice(0, 3).map((c) => c / 255)
          .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
          .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        const behind = (e) => {
          for (; e; e = e.parentElement) {
            const color = getComputedStyle(e).backgroundColor;
            if ((numbers(color)[3] ?? 1) > 0) return color;
          }
        };
        const low = [];
        for (const e of document.querySelectorAll("main *, header *")) {
          const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
          if (!own || e.closest(":disabled, .unseen")) continue;
          const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
          if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${e.className} ${e.textContent} ${(a + 0.05) / (b + 0.05)}`);
        }
        return low;
      })()"""
    )
    assert low == []


@pytest.mark.parametrize("width", [375, 768, 1440])
def test_no_width_scrolls_sideways(page: Page, report: Report, width: int) -> None:
    page.look(width=width)
    page.open(report(*FOUR, since=FOUR))
    assert page.run("document.documentElement.scrollWidth") == width
    page.click("table.cases tbody button")
    assert page.run("document.getElementById('details').getBoundingClientRect().right") <= width
    assert page.run("document.querySelector('table.cases td.config').getBoundingClientRect().right") <= width


def test_an_empty_folder_says_so(page: Page, report: Report) -> None:
    page.open(report())
    assert page.texts("#status")[0].startswith("There is no case in ")


@pytest.mark.slow
def test_a_hundred_thousand_cases(page: Page, tmp_path: Path) -> None:
    folder = write_many(tmp_path / "now", many(100_000))
    size = write_report(file := tmp_path / "report.html", page_data(collect(folder)))
    assert size < 20e6
    # The best of three: other work of the machine only ever adds.
    assert min(page.open(file) for _ in range(3)) < 3.0
