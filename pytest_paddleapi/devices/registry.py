"""The kinds of device, ours and third parties', and which one a session uses.

A kind is an object like :class:`~pytest_paddleapi.devices.model.DeviceKind`. Ours are the ``KIND`` of a module of
this package, imported when it is asked for; another package's is an entry point of the group
``pytest_paddleapi.devices`` that names such an object::

    [project.entry-points."pytest_paddleapi.devices"]
    mychip = "mychip_pytest:KIND"
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points

from .model import Device, DeviceError, DeviceKind, DeviceReadingTimeoutError, Probe
from .readings import ABANDON_SECONDS, within

__all__ = ["ENTRY_POINT_GROUP", "DeviceRegistry", "PassedOver", "Selection", "default_registry"]

ENTRY_POINT_GROUP = "pytest_paddleapi.devices"

#: Our own kinds: the name and the module whose ``KIND`` it is.
_OWN = {"nvidia": "nvidia", "xpu": "xpu", "iluvatar": "iluvatar", "custom": "custom", "cpu": "host"}


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A kind that ``auto`` asked first and could not use; ``why`` belongs into the header of the session."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The kind that a session uses, all its devices in sight, and what was passed over for it."""

    kind: DeviceKind
    devices: tuple[Device, ...]
    unusable: tuple[tuple[str, str], ...] = ()
    passed_over: tuple[PassedOver, ...] = ()


@dataclass
class DeviceRegistry:
    """Kinds by name. ``failed`` has third parties' entry points that could not be loaded, and why."""

    kinds: dict[str, DeviceKind] = field(default_factory=dict)
    failed: list[PassedOver] = field(default_factory=list)

    def register(self, kind: DeviceKind) -> None:
        """Add a kind.

        Raises:
            DeviceError: the name is taken, or ``kind`` lacks something that a kind needs.
        """
        missing = [name for name in _NEEDED if not hasattr(kind, name)]
        if missing:
            raise DeviceError(f"{kind!r} is no kind of device: it has no {', '.join(missing)}")
        if kind.name in self.kinds:
            raise DeviceError(f"two kinds of device are called {kind.name!r}: {self.kinds[kind.name]!r} and {kind!r}")
        self.kinds[kind.name] = kind

    def by_priority(self) -> list[DeviceKind]:
        """Every kind, the one that ``auto`` asks first in front; by name where priorities are equal."""
        return sorted(self.kinds.values(), key=lambda kind: (-kind.priority, kind.name))

    def select(
        self,
        name: str = "auto",
        environ: Mapping[str, str] | None = None,
        *,
        seconds: float = ABANDON_SECONDS,
    ) -> Selection:
        """The kind called ``name``, or for ``auto`` the first by priority whose probe finds a device.

        Raises:
            DeviceError: no kind is called so, or it has no device in sight.
        """
        environ = os.environ if environ is None else environ
        if name != "auto" and name not in self.kinds:
            near = get_close_matches(name, self.kinds, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise DeviceError(f"no kind of device is called {name!r}; there are: auto, {', '.join(self.kinds)}.{hint}")
        passed: list[PassedOver] = list(self.failed) if name == "auto" else []
        for kind in self.by_priority() if name == "auto" else [self.kinds[name]]:
            found = _probe(kind, environ, seconds)
            if found.devices:
                return Selection(kind, found.devices, found.unusable, tuple(passed))
            passed.append(PassedOver(kind.name, found.why_not or "it found no device"))
        tried = "; ".join(f"{entry.name}: {entry.why}" for entry in passed)
        raise DeviceError(f"no {'device' if name == 'auto' else name + ' device'} can be used here ({tried})")


_NEEDED = ("name", "priority", "visibility_variable", "probe", "visible", "paddle_device", "torch_device")


def _probe(kind: DeviceKind, environ: Mapping[str, str], seconds: float) -> Probe:
    try:
        return within(seconds, f"the {kind.name} devices", lambda: kind.probe(environ))
    except DeviceReadingTimeoutError:
        return Probe(why_not=f"its driver did not answer within {seconds:g} s")
    except Exception as exc:  # noqa: BLE001  a third party's probe may raise anything; it must not take the others down
        return Probe(why_not=f"its probe failed: {type(exc).__name__}: {exc}")


def default_registry(
    extra: Callable[[], Iterable[EntryPoint]] = lambda: entry_points(group=ENTRY_POINT_GROUP),
) -> DeviceRegistry:
    """Our kinds and those of installed packages. One that cannot be loaded is kept as a reason, not raised."""
    registry = DeviceRegistry()
    for module in _OWN.values():
        registry.register(importlib.import_module(f"{__package__}.{module}").KIND)
    for entry in extra():
        try:
            registry.register(entry.load())
        except Exception as exc:  # noqa: BLE001  whatever a third party's module raises; the session goes on without
            registry.failed.append(PassedOver(entry.name, f"{entry.value} cannot be loaded: {exc}"))
    return registry
