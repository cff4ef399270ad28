"""From pytest's config to the plugin's state: options, arguments, environment."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from .config.errors import ConfigFileError
from .config.files import find_files, printable
from .config.manifest import COMMAND_LINE, Manifest, build_manifest
from .devices.selection import MOST_WORKERS, DeviceOptionError
from .fleet import Fleet, Placement, build_fleet, single
from .gpu_admission import LedgerFolderError, check_folder
from .hosts import INPUT, RemotePlace
from .items import session_key
from .options.model import RunOptions
from .options.modes import MODES
from .options.performance import check_torch_device
from .options.reading import device_options, memory_limit, read_options
from .options.running import fit_to_devices
from .options.sanitizer import check_sanitizer_device
from .options.workers import cores, worker_count
from .session import PaddleApiSession

_PR_SET_PDEATHSIG = 1
_fleet_key = pytest.StashKey[Fleet]()


def start(config: pytest.Config) -> PaddleApiSession:
    """Check everything that can be checked before a test runs, and build the session's state.

    Raises:
        pytest.UsageError: an option, a path or the installation is wrong.
    """
    options = read_options(config)
    _check_installation()
    fleet = None if hasattr(config, "workerinput") else fleet_of(config)
    if fleet is not None:
        check_sanitizer_device(config.option, fleet.kind.name)
    try:
        files = find_files(options.patterns, config.invocation_params.dir)
    except ConfigFileError as exc:
        raise pytest.UsageError(f"--paddleapi-configs: {exc}") from None
    for path in files:
        if "::" in str(path) or "[" in str(path) or not str(path).isprintable():
            raise pytest.UsageError(
                f"--paddleapi-configs: pytest can make no node ids for {printable(str(path))}: rename it, so that the "
                "path has no '::', no '[' and no character that does not print"
            )
    named = named_files(config)
    texts = _command_line_texts(config, options)
    if not files and not named and not texts:
        raise pytest.UsageError(
            f"{MODES[options.mode].option} has nothing to run: give --paddleapi-configs=PATH or "
            f"--paddleapi-config='paddle.abs(...)'{_folder_hint(config)}"
        )
    _choose_arguments(config, files, named)
    if not hasattr(config, "workerinput"):
        try:
            check_folder(options.ledger)
        except LedgerFolderError as exc:
            raise pytest.UsageError(f"--paddleapi-ledger: {exc}") from None
    if hasattr(config, "workerinput"):
        _die_with_controller(config.workerinput)
    elif getattr(config.option, "maxworkerrestart", "absent") is None:
        # A worker that a case takes down is replaced and counted by us: xdist's limit would end the run
        # with cases neither run nor named.
        config.option.maxworkerrestart = "1000000"
    manifest = build_manifest(list(dict.fromkeys([*files, *named])), texts)
    config.args = [_with_node_name(arg, manifest) for arg in config.args]
    if fleet is None:
        placement = _worker_placement(config, config.workerinput)  # type: ignore[attr-defined]
    else:
        if not _has_workers(config):
            fleet = single(fleet)
        placement = fleet.placement(next(iter(fleet.groups)))
        check_torch_device(options.mode, placement.kind, placement.torch)
    options = replace(options, case=fit_to_devices(options.case, placement.kind))
    state = PaddleApiSession(config, options, manifest, placement, fleet)
    config.stash[session_key] = state
    return state


def _worker_placement(config: pytest.Config, workerinput: dict[str, object]) -> Placement:
    """What a worker's cases run on: as it was told, or on another host as it finds there.

    Raises:
        pytest.UsageError: that host has no such device.
    """
    if INPUT not in workerinput:
        return msgspec.convert(workerinput["paddleapi_placement"], Placement)
    place = msgspec.convert(workerinput[INPUT], RemotePlace)
    try:
        fleet = build_fleet(place.kind, device_options(config), cores=cores(), memory_limit=memory_limit(config))
    except DeviceOptionError as exc:
        raise pytest.UsageError(f"on the worker's host {socket.gethostname()}: {exc}") from None
    names = list(fleet.groups)
    return fleet.placement(names[place.ordinal % len(names)])


def _has_workers(config: pytest.Config) -> bool:
    return bool(getattr(config.option, "tx", None)) and getattr(config.option, "dist", "no") != "no"


def fleet_of(config: pytest.Config) -> Fleet:
    """The devices that the command line asks for; looked for once. Not for a worker, which is told its own.

    Raises:
        pytest.UsageError: an option is wrong, or there is no such device.
    """
    if _fleet_key not in config.stash:
        try:
            config.stash[_fleet_key] = build_fleet(
                config.option.paddleapi_device,
                device_options(config),
                cores=cores(),
                memory_limit=memory_limit(config),
                paddle_on_cpu=config.option.paddleapi_test_cpu,
            )
        except DeviceOptionError as exc:
            raise pytest.UsageError(str(exc)) from None
        workers = worker_count(config)
        if workers > MOST_WORKERS:
            raise pytest.UsageError(f"-n {workers}: {MOST_WORKERS} workers are the most that a host can feed")
        pairs = config.stash[_fleet_key].pairs
        if pairs and workers > pairs:
            raise pytest.UsageError(
                f"-n {workers}: this mode has one worker for each pair of devices, and there "
                f"{'is 1 pair' if pairs == 1 else f'are {pairs} pairs'}; give -n {pairs}, or -n auto"
            )
    return config.stash[_fleet_key]


def _check_installation() -> None:
    """The frameworks are imported in case processes only; here it is enough that they can be found."""
    needed = {"paddle": "paddlepaddle", "torch": "torch"}
    missing = [package for module, package in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise pytest.UsageError(
            f"{' and '.join(missing)} must be installed to run Paddle API cases: pip install 'pytest-paddleapi[cpu]', "
            "or see the README for GPU builds"
        )


def named_files(config: pytest.Config) -> list[Path]:
    """Config files that are positional arguments, with or without a node id behind them."""
    found = []
    for arg in config.args:
        path = config.invocation_params.dir / str(arg).partition("[")[0].split("::", 1)[0]
        if path.suffix == ".txt" and path.is_file():
            found.append(path)
    return list(dict.fromkeys(found))


def _folder_hint(config: pytest.Config) -> str:
    """What to type for a folder of configs that was given as pytest's own argument."""
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        for arg in map(str, config.args):
            if next((config.invocation_params.dir / arg).glob("**/*.txt"), None) is not None:
                return f"; for the *.txt files below {arg}: --paddleapi-configs={arg}"
    return ""


def _with_node_name(arg: str, manifest: Manifest) -> str:
    """A node id whose config is spelt in another way, or as it stands in the file, with the name that the item has."""
    file, separator, name = str(arg).partition("::")
    if not separator or not file.endswith(".txt") or manifest.find(name) is not None:
        return arg
    case = manifest.find_text(name)
    if case is None and name.endswith("]"):
        api, _, arguments = name.partition("[")
        case = manifest.find_text(f"{api}({arguments[:-1]})")
    return arg if case is None else f"{file}::{case.name}"


def _choose_arguments(config: pytest.Config, files: list[Path], named: list[Path]) -> None:
    """Let pytest collect the config files.

    Positional arguments that name some of them choose among them. Without positional arguments only
    configs run: pytest would otherwise collect the whole folder too.
    """
    explicit = config.args_source is pytest.Config.ArgsSource.ARGS
    if not explicit:
        config.args = [str(path) for path in files]
        return
    if not named:
        config.args = [*config.args, *(str(path) for path in files)]


def _command_line_texts(config: pytest.Config, options: RunOptions) -> list[str]:
    """Configs from ``--paddleapi-config``, and from their node ids pasted back as arguments."""
    prefix = f"{COMMAND_LINE}::"
    pasted = [str(arg)[len(prefix) :] for arg in config.args if str(arg).startswith(prefix)]
    if not pasted:
        return list(options.texts)
    config.args = [arg for arg in config.args if not str(arg).startswith(prefix)]
    known = build_manifest([], options.texts)
    texts = []
    for name in pasted:
        case = known.find(name)
        api, _, arguments = name.partition("[")
        texts.append(case.text if case is not None else f"{api}({arguments.removesuffix(']')})")
    return texts


def _die_with_controller(workerinput: dict[str, object]) -> None:
    """A worker on the controller's own machine ends with it, at once, whatever it is doing."""
    if INPUT in workerinput or workerinput.get("paddleapi_controller") != os.getppid():
        return  # on another host the id may be anybody's; there execnet ends it when the connection is gone
    # Ctrl-C reaches the whole process group; it is the controller who says what ends when.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if workerinput.get("paddleapi_controller") != os.getppid():
        os._exit(1)  # it died before the line above took effect
