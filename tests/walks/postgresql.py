"""A PostgreSQL server of its own, on the loopback, that ends with the block."""

import os
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER, PASSWORD = "grader", "a secret"  # the address has it quoted


def find_server_programs() -> Path | None:
    """Return the folder of initdb and pg_ctl: where Debian puts them, or that of the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def postgresql_server(programs: Path) -> Iterator[str]:
    """Start a server; yield `user:password@host:port` as it stands in an address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="gradebook-"))
    as_server = []
    if os.geteuid() == 0:  # as which PostgreSQL does not run
        shutil.chown(folder, "postgres")
        as_server = ["runuser", "-u", "postgres", "--"]
    secret = folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)

    def do(program: str, *arguments: str) -> None:
        command = [*as_server, str(programs / program), "-D", str(folder / "data"), *arguments]
        done = subprocess.run(
            command, cwd=folder, check=False, timeout=120, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout

    try:
        do("initdb", "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}")
        options = shlex.join(
            ["-p", str(port), "-c", "listen_addresses=127.0.0.1", "-k", str(folder)]
        )
        do("pg_ctl", "-o", options, "-l", str(folder / "log"), "-w", "start")
        try:
            yield f"{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}"
        finally:
            do("pg_ctl", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder)
