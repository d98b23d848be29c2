"""need_package: an error that says what to install, if a package of an extra is missing."""

from __future__ import annotations

from importlib import import_module

from kproducer.errors import ConfigError


def need_package(user: str, package: str, module: str, extra: str) -> None:
    """Import a module of a package that not every installation has.

    Args:
        user: what needs the package, for the error's text.
        package: its name, as pip knows it.
        module: one of its modules.
        extra: the extra of kproducer that installs it.

    Raises:
        ConfigError: the package is not installed.
    """
    try:
        import_module(module)
    except ImportError as error:
        raise ConfigError(f"{user} needs the package {package}: pip install 'kproducer[{extra}]'") from error
