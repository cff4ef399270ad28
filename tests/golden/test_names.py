"""Names of objects: what decides a result, and nothing else."""

from __future__ import annotations

import pytest

from pytest_paddleapi.golden.names import object_name
from pytest_paddleapi.golden.redact import redact, scrub
from pytest_paddleapi.options.golden import golden_words, without_secrets, words_without_secrets
from pytest_paddleapi.process.messages import CaseOptions, GoldenOptions, Mode, ToleranceOptions

CONFIG = 'paddle.abs(Tensor([2],"float32"), )'
NAME = "v1/b4/b481a1bce0cff166ccae1b5fb122471e75667c983c288dd92578bfdde1ac46fc.golden"


def test_the_name_of_a_case_never_changes() -> None:
    # A store that is in use must be read by later versions.
    assert object_name(CONFIG, CaseOptions()) == NAME


def test_what_decides_a_result_is_in_the_name() -> None:
    base = CaseOptions()
    other = [CaseOptions(seed=1), CaseOptions(cache_inputs=True), CaseOptions(test_backward=False)]
    names = {object_name(CONFIG, options) for options in (base, *other)} | {object_name(CONFIG + " ", base)}
    assert len(names) == 5


def test_device_mode_tolerance_and_place_are_not() -> None:
    there = CaseOptions(
        mode=Mode.CUSTOM_DEVICE_VS_GPU,
        device="gpu:0",
        torch_device="cuda:0",
        threads=4,
        tolerance=ToleranceOptions("bitwise"),
        record_tolerance=True,
        golden=GoldenOptions("s3://b/x", True, "s3://b/x"),
    )
    assert object_name(CONFIG, there) == object_name(CONFIG, CaseOptions())


def test_a_lone_surrogate_has_a_name() -> None:
    assert object_name('paddle.f("\udc80")', CaseOptions()) != object_name('paddle.f("\udc81")', CaseOptions())


def test_secrets_of_a_url_are_not_shown() -> None:
    url = "sftp://me:hunter2hunter2@host/x?token=abcdefgh123&b=1"
    assert redact(url) == "sftp://***@host/x?***"
    assert redact("/a/b?c@d") == "/a/b?c@d"
    text = scrub(f"cannot open {url}: password hunter2hunter2, abcdefgh123", [url])
    assert text == "cannot open sftp://***@host/x?***: password ***, ***"


def test_a_command_line_and_what_is_kept_have_no_secrets() -> None:
    url = "sftp://me:hunter2hunter2@host/x?token=abcdefgh123"
    golden = GoldenOptions(url, upload=False, shown=redact(url))
    words = words_without_secrets(f"--custom-device-vs-gpu --paddleapi-golden={url} -n0", golden)
    assert words == "--custom-device-vs-gpu --paddleapi-golden=sftp://***@host/x?*** -n0"
    assert golden_words(golden) == ["--paddleapi-golden=sftp://***@host/x?***", "--paddleapi-golden-mode=download"]
    kept = without_secrets(CaseOptions(golden=golden)).golden
    assert kept is not None and kept.url == "sftp://***@host/x?***"


def test_secrets_of_the_environment_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    assert scrub("the key wJalrXUtnFEMI is wrong") == "the key *** is wrong"
