"""Two machines of their own network, made of network namespaces; each can be cut off."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

CAN_MAKE_MACHINES = os.geteuid() == 0 and shutil.which("ip") is not None
HEAD = "10.77.1.1"  # this machine, as both see it


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


@contextmanager
def two_machines(*names: str) -> Iterator[None]:
    """Make machines that reach this one at `HEAD`, and nothing beyond it."""
    made = []
    try:
        for number, name in enumerate(names, 1):
            _ip("netns", "add", name)
            made.append(name)
            _ip("link", "add", f"to-{name}", "type", "veth", "peer", "eth0", "netns", name)
            _ip("address", "add", f"10.77.{number}.1/24", "dev", f"to-{name}")
            _ip("link", "set", f"to-{name}", "up")
            for inside in (
                ("address", "add", f"10.77.{number}.2/24", "dev", "eth0"),
                ("link", "set", "lo", "up"),
                ("link", "set", "eth0", "up"),
                ("route", "add", "default", "via", f"10.77.{number}.1"),
            ):
                _ip("-n", name, *inside)
        yield
    finally:
        for name in made:
            for pid in subprocess.check_output(["ip", "netns", "pids", name], text=True).split():
                os.kill(int(pid), 9)
            _ip("netns", "delete", name)  # its end of the cable goes along


def set_network(name: str, state: str) -> None:
    """Take a machine's network away ("down"), or give it back ("up")."""
    _ip("link", "set", f"to-{name}", state)
