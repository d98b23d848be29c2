"""A Kerberos realm for tests: MIT's KDC on loopback, on a free port, with its database in a temporary folder.

Without MIT Kerberos or the package gssapi tests are skipped; ``KPRODUCER_REQUIRE_KERBEROS=1`` makes that a
failure. ``make kerberos`` installs both.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.support.kafka.cluster import ReservedPorts
from tests.support.requirements import REQUIRE_KERBEROS, skip_or_fail

REALM = "KPRODUCER.TEST"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_BOUNDED_EXEC = Path(__file__).with_name("bounded_exec.py")
_LIFETIME_S = 3600
_START_S = 30.0
#: Brokers are reached as 127.0.0.1, and are called so in their principals. One transport, one port: TCP.
_KRB5_CONF = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
_KDC_CONF = """[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
 }}
[logging]
 kdc = FILE:{folder}/kdc.log
"""


def _found(program: str) -> str | None:
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def skip_or_fail_without_kerberos(item: pytest.Item) -> None:
    """For ``pytest_runtest_setup``."""
    if item.get_closest_marker("kerberos") is None:
        return
    missing = [program for program in _PROGRAMS if _found(program) is None]
    if importlib.util.find_spec("gssapi") is None:
        missing.append("the package gssapi")
    if missing:
        skip_or_fail(REQUIRE_KERBEROS, f"tests with Kerberos: {', '.join(missing)} not found: make kerberos")


class Kdc:
    """A running KDC. Close it, or use ``with``.

    Attributes:
        krb5_conf: path of the configuration for clients and brokers.
        ticket_cache: path of the cache that ``kinit`` writes.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kdc-"))
        self._reserved = ReservedPorts(1)
        (self._port,) = self._reserved.ports
        names = {"realm": REALM, "port": self._port, "folder": self.folder}
        self.krb5_conf = self.folder / "krb5.conf"
        self.krb5_conf.write_text(_KRB5_CONF.format(**names))
        (self.folder / "kdc.conf").write_text(_KDC_CONF.format(**names))
        self.ticket_cache = self.folder / "tickets"
        self._environment = {
            **os.environ,
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.ticket_cache}",
        }
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
            self.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Kdc:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def set_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make this process a client of the realm, without tickets."""
        for name in ("KRB5_CONFIG", "KRB5CCNAME"):
            monkeypatch.setenv(name, self._environment[name])
        for name in ("KRB5_CLIENT_KTNAME", "KRB5_KTNAME"):
            monkeypatch.setenv(name, f"FILE:{self.folder}/none")

    def start(self) -> None:
        """Start, and wait until it answers."""
        program = _found("krb5kdc")
        assert program is not None
        command = [sys.executable, str(_BOUNDED_EXEC), str(_LIFETIME_S), program, "-n", "-r", REALM]
        self._process = subprocess.Popen(
            command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal must not end it before its clients
        )
        deadline_s = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline_s:
                    raise RuntimeError(f"the KDC did not start: {self._log()}") from None
                time.sleep(0.02)

    def stop(self) -> None:
        """Stop; ``start`` starts again with the same principals."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def close(self) -> None:
        """Stop and remove everything. Idempotent."""
        self.stop()
        self._reserved.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def add_principal(self, name: str, password: str | None = None) -> None:
        """Add a principal; without a password it has a random key."""
        self._admin(f"addprinc {'-randkey' if password is None else f'-pw {password}'} {name}")

    def limit_tickets(self, name: str, seconds: int) -> None:
        """Let tickets of a principal expire after that time."""
        self._admin(f'modprinc -maxlife "{seconds} seconds" {name}')

    def delete_principal(self, name: str) -> None:
        self._admin(f"delprinc -force {name}")

    def change_key(self, name: str) -> None:
        self._admin(f"cpw -randkey {name}")

    def keytab(self, *names: str) -> str:
        """The path of a new keytab with the keys of these principals."""
        path = self.folder / f"{len(list(self.folder.iterdir()))}.keytab"
        self._admin(f"ktadd -norandkey -k {path} {' '.join(names)}")
        return str(path)

    def kinit(self, name: str, password: str, lifetime: str = "1h") -> None:
        """Get a ticket."""
        self._run("kinit", "-l", lifetime, name, given=password + "\n")

    def remove_tickets(self) -> None:
        self.ticket_cache.unlink(missing_ok=True)

    def _admin(self, query: str) -> None:
        output = self._run("kadmin.local", "-r", REALM, "-q", query)
        if "while" in output:  # its status does not tell
            raise RuntimeError(output)

    def _run(self, program: str, *arguments: str, given: str = "") -> str:
        path = _found(program)
        assert path is not None
        command = [path, *arguments]
        done = subprocess.run(
            command, env=self._environment, input=given, capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr}")
        return done.stdout + done.stderr

    def _log(self) -> str:
        path = self.folder / "kdc.log"
        return path.read_text() if path.exists() else "no log"
