"""Grades on other machines through Dask distributed (extra `cluster`; docs/scale.md).

Dask's scheduler and workers obey anybody who can reach them, and their messages are pickles: so the
grader talks to them over TLS, or on this machine alone. Lanes are Dask's resources: every worker
that judges offers CPU=1, one of each machine TIMING=1, those with a GPU of their own GPU=1.

A worker grades in a separate process: in one process with Dask's threads, each wait for a few bytes
would also be a wait for the interpreter's lock.
"""

import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future
from ipaddress import ip_address
from socket import create_connection
from typing import Any
from urllib.parse import urlsplit

from distributed import Client, KilledWorker, Security

from grader.classroom.run.grade_task import SPEED, VALUES, ClassTask, GradeTerms
from grader.classroom.run.grade_work import (
    GradingEnvironment,
    perform_class_task,
    read_class_environment,
)
from grader.classroom.run.lanes import Result, call_class_process
from grader.core.errors import UserError

RESOURCES = {VALUES: "CPU", SPEED: "TIMING"}
_CONNECT_SECONDS = 10  # seconds
PATIENCE_SECONDS = 600.0  # seconds without a worker: one that was taken away may come back
_FIRST_IMPORT_SECONDS = 300  # seconds: of torch, from a slow disk
_POLL_SECONDS = 2.0  # seconds for which is known who is there
_TASKS_AHEAD = 2  # tasks for each that can be done at once, so that nobody waits for the next


class Cluster:
    """The workers of a Dask scheduler."""

    losses: tuple[type[Exception], ...] = (KilledWorker, BrokenExecutor)

    def __init__(self, address: str, secret: str, device: str) -> None:
        address = _resolve_cluster_scheduler(address)
        try:
            self._client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UserError(f"No Dask scheduler answers at {address}: {error}") from None
        self._secret = secret
        self._device = device
        self._asked = float("-inf")
        self._offers: list[dict[str, float]] = []
        self._alone_since: float | None = None

    def width(self, lane: str) -> int:
        if time.monotonic() - self._asked > _POLL_SECONDS:
            self._offers = [offer for _, _, offer in self._list_workers()]
            self._asked = time.monotonic()
        return max(1, self._offered_resources(lane)) * _TASKS_AHEAD

    def look(self, lane: str) -> None:
        self._offers = [offer for _, _, offer in self._list_workers()]
        if self._offered_resources(lane):
            self._alone_since = None
            return
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > PATIENCE_SECONDS:
            raise UserError(
                f"No worker has offered {RESOURCES[lane]} for {PATIENCE_SECONDS / 60:.0f} minutes. "
                "What was graded is kept: `--resume`."
            )

    def _offered_resources(self, lane: str) -> int:
        return int(sum(offer.get(RESOURCES[lane], 0) for offer in self._offers))

    def submit(self, task: ClassTask) -> "Future[Result]":
        wanted = list_cluster_lane_resources(task.lane, self._device)
        executor = self._client.get_executor(resources=wanted, pure=False)
        future: Future[Result] = executor.submit(
            call_class_process, perform_class_task, task, self._secret
        )
        return future

    def close(self, *, at_once: bool) -> None:
        self._client.close()  # Dask forgets what nobody waits for

    def check(self, terms: GradeTerms, codes: dict[str, str], speed: bool) -> None:
        """Raise `UserError` unless every worker can be reached safely and fits."""
        for listening in self._client.run_on_scheduler(_does_cluster_scheduler_listen):
            _check_cluster_address(listening, "The scheduler")
        workers = self._list_workers()
        if not workers:
            raise UserError("The scheduler has no worker: start some (docs/scale.md).")
        for lane in (VALUES, SPEED) if speed else (VALUES,):
            _check_workers_of_cluster(lane, workers)
        addresses = [address for address, _, _ in workers]
        self._check_importable(addresses)
        for address, found in self._worker_environments(addresses, tuple(codes), terms):
            for what, is_so, wanted in found.unlike(terms, codes):
                raise UserError(
                    f"The worker at {address} cannot grade with this machine: {what} is {is_so} "
                    f"there and {wanted} here. Give both the same."
                )

    def _check_importable(self, addresses: list[str]) -> None:
        """Raise `UserError` if a worker cannot import the grader: a task would end it."""
        answers = self._client.run(
            _read_cluster_worker_address, on_error="return", workers=addresses
        )
        for address, answer in answers.items():
            if isinstance(answer, BaseException):
                raise UserError(
                    f"The worker at {address} cannot grade: {_describe_cluster_worker(answer)}"
                )
            for listening in answer:
                _check_cluster_address(listening, "A worker")

    def _worker_environments(
        self, addresses: list[str], slugs: tuple[str, ...], terms: GradeTerms
    ) -> Iterator[tuple[str, GradingEnvironment]]:
        """Return each worker's environment; ask all at once, since each has to import torch."""
        ask = (call_class_process, read_class_environment, slugs, terms.wall, terms.device)
        asked = {a: self._client.submit(*ask, workers=[a], pure=False) for a in addresses}
        for address, future in asked.items():
            try:
                problem = future.exception(timeout=_FIRST_IMPORT_SECONDS)
            except TimeoutError:
                raise UserError(
                    f"The worker at {address} does not answer: start it anew."
                ) from None
            if problem:
                raise UserError(
                    f"The worker at {address} cannot grade: {_describe_cluster_worker(problem)}"
                )
            yield address, future.result()

    def _list_workers(self) -> list[tuple[str, str, dict[str, float]]]:
        """Return the address, the machine and the resources of every worker.

        Raises `UserError` if others can reach a worker, such as one that joined later.
        """
        found = list(self._client.run_on_scheduler(_list_cluster_workers))
        for address, _, _ in found:
            _check_cluster_address(address, "A worker")
        return found


def list_cluster_lane_resources(lane: str, device: str) -> dict[str, int]:
    """Return the resources that a worker offers for tasks of a lane."""
    gpu = {"GPU": 1} if device == "cuda" else {}
    return {RESOURCES[lane]: 1} | gpu


def _list_cluster_workers(dask_scheduler: Any) -> list[tuple[str, str, dict[str, float]]]:
    return [(w.address, w.host, dict(w.resources)) for w in dask_scheduler.workers.values()]


def _does_cluster_scheduler_listen(dask_scheduler: Any) -> list[str]:
    return [listener.listen_address for listener in dask_scheduler.listeners]


def _read_cluster_worker_address(dask_worker: Any) -> list[str]:
    """Return where a worker listens; a worker that cannot import this module cannot reply."""
    return [listener.listen_address for listener in dask_worker.listeners]


def _resolve_cluster_scheduler(address: str) -> str:
    """Return the address of a reachable scheduler. Raises `UserError` with the reason."""
    whole = address if "://" in address else f"tcp://{address}"
    try:
        parts = urlsplit(whole)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.scheme not in ("tcp", "tls"):
        raise UserError(
            f"{address!r} is no address of a Dask scheduler: those look like "
            "tcp://127.0.0.1:8786 or tls://host:8786."
        )
    _check_cluster_address(whole, "The scheduler")
    if parts.scheme == "tls" and not Security().get_connection_args("client").get("ssl_context"):
        raise UserError(
            f"There are no certificates for {address}: docs/scale.md says how to make some."
        )
    try:
        create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as error:
        raise UserError(
            f"No Dask scheduler answers at {address}: {error.strerror or error}"
        ) from None
    return whole


def _check_cluster_address(address: str, who: str) -> None:
    """Raise `UserError` for an address that others could listen to or give orders to."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme == "tls" or (
        parts.scheme == "tcp" and _is_cluster_loopback(parts.hostname or "")
    ):
        return
    raise UserError(
        f"{who} listens at {address} without TLS, where anybody in the network can give it orders. "
        "Start it with `--host 127.0.0.1`, or with certificates (docs/scale.md)."
    )


def _describe_cluster_worker(problem: BaseException) -> str:
    if "daemonic" in str(problem):
        return (
            "it grades in a process of its own, which a nanny forbids: start it with `--no-nanny`."
        )
    return str(problem)


def _is_cluster_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_workers_of_cluster(lane: str, workers: list[tuple[str, str, dict[str, float]]]) -> None:
    """Raise `UserError` if no worker serves a lane, or if two would time on one machine."""
    name = RESOURCES[lane]
    hosts = [host for _, host, offer in workers for _ in range(int(offer.get(name, 0)))]
    if not hosts:
        without = " Or leave speed out: `--no-speed`." if lane == SPEED else ""
        raise UserError(
            f"No worker offers {name}: start some with `--resources {name}=1`.{without}"
        )
    if lane == SPEED and len(set(hosts)) < len(hosts):
        twice = next(host for host in hosts if hosts.count(host) > 1)
        raise UserError(
            f"More than one worker on {twice} offers {name}: they would disturb each other. "
            "Let one of each machine offer it."
        )
