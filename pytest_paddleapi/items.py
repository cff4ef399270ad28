"""Config files as collectors and their cases as items."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .config.manifest import COMMAND_LINE, Case, Manifest

if TYPE_CHECKING:
    from .session import PaddleApiSession

session_key: pytest.StashKey[PaddleApiSession] = pytest.StashKey()


def session_of(config: pytest.Config) -> PaddleApiSession | None:
    """The plugin's state of this session; None where the plugin has nothing to do."""
    return config.stash.get(session_key, None)


class ConfigFile(pytest.File):
    """One file of configs."""

    def collect(self) -> Iterable[pytest.Item]:
        """The file's cases, in its order; a config that stood in an earlier file is not among them."""
        manifest = self.config.stash[session_key].manifest
        return make_items(self, manifest, manifest.by_file.get(self.path.resolve(), ()))


class CommandLineConfigs(pytest.Collector):
    """The configs that ``--paddleapi-config`` gives."""

    def collect(self) -> Iterable[pytest.Item]:
        """One item a config."""
        manifest = self.config.stash[session_key].manifest
        return make_items(self, manifest, manifest.by_file.get(COMMAND_LINE, ()))


def make_items(parent: pytest.Collector, manifest: Manifest, indices: Iterable[int]) -> list[pytest.Item]:
    """Items for cases of the manifest."""
    return [
        CaseItem.from_parent(
            parent, name=manifest.cases[i].name, nodeid=f"{parent.nodeid}::{manifest.cases[i].name}", index=i
        )
        for i in indices
    ]


class CaseItem(pytest.Item):
    """One config under the session's mode. It runs in a case process, see :mod:`.session`."""

    def __init__(self, *, index: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        #: Place in the manifest, and so in the run.
        self.index = index
        session = self.config.stash[session_key]
        case = session.manifest.cases[index]
        dtypes = case.dtypes
        self.add_marker(pytest.mark.paddleapi(api=case.api, dtypes=dtypes, mode=session.options.mode.value))
        self.extra_keyword_matches.update((case.api, *dtypes, session.options.mode.value))

    @property
    def case(self) -> Case:
        """The manifest's entry."""
        return self.config.stash[session_key].manifest.cases[self.index]

    def runtest(self) -> None:
        """Never called: the plugin's own protocol runs the item and makes its one report.

        Raises:
            RuntimeError: another plugin bypassed the protocol.
        """
        raise RuntimeError("a Paddle API case was run by another plugin's protocol, which cannot work")

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the config stands; a headline shows the call itself.

        Not the name: the terminal would write the dots of a name's end as ``::``.
        """
        path = self.parent.path if isinstance(self.parent, ConfigFile) else self.config.rootpath
        api, _, arguments = self.name.partition("[")
        return path, None, f"{api}({arguments.removesuffix(']')})"
