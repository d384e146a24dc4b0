"""A real Dask scheduler and its workers, each a process of its own."""

import re
import subprocess
import sys
import time
from pathlib import Path

from tests.classes.classroom import environment


class Dask:
    """A scheduler on this machine, and workers that are started one by one."""

    def __init__(
        self, folder: Path, protocol: str = "tcp", host: str = "127.0.0.1", **environ: str
    ) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen] = []
        log = self._start("scheduler", "scheduler", "--host", host, "--port", "0",
                          "--no-dashboard", "--protocol", protocol, **environ)  # fmt: skip
        self.address = self._wait_for(log, r"Scheduler at:\s+(t\w+://\S+)")

    def worker(
        self, resources: str = "CPU=1", *, nanny: bool = False, **environ: str
    ) -> subprocess.Popen:
        name = f"worker{len(self._processes)}"
        log = self._start(name, "worker", self.address, "--host", "127.0.0.1", "--nthreads", "1",
                          "--no-dashboard", "--resources", resources, "--nanny" if nanny else "--no-nanny",
                          "--local-directory", str(self._folder), **environ)  # fmt: skip
        self._wait_for(log, r"(Registered to)")
        return self._processes[-1]

    def _start(self, name: str, what: str, *arguments: str, **environ: str) -> Path:
        log = self._folder / f"{name}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", what, *arguments], stdout=file, stderr=file,
                env=environment() | environ, cwd=self._folder,
            )  # fmt: skip
        self._processes.append(process)
        return log

    def _wait_for(self, log: Path, pattern: str) -> str:
        until = time.monotonic() + 60
        while not (found := re.search(pattern, log.read_text())):
            assert time.monotonic() < until, log.read_text()
            assert self._processes[-1].poll() is None, log.read_text()
            time.sleep(0.1)
        return found[1]

    def close(self) -> None:
        for process in self._processes:  # a worker says goodbye for half a minute
            process.kill()
            process.wait()
