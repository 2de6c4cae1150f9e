"""Connect to a Dask cluster, with clear errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tacit.base.errors import InputError, TacitError, installing


@contextmanager
def connected(cluster: Any, advice: str = "Repeat the call.") -> Iterator[Any]:
    """Yield a client of `cluster`, which is an address or a client.

    A client that was made here is closed afterwards. If the cluster dies, the error is one sentence that ends
    with `advice`.
    """
    try:
        from distributed import Client
        from distributed.client import FutureCancelledError, FuturesCancelledError
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise InputError(f"a cluster needs the package distributed; {installing('cluster')}.") from error
    client = _client(cluster, Client)
    try:
        yield client
    except (KilledWorker, FutureCancelledError, FuturesCancelledError, OSError) as error:
        raise TacitError(
            f"the cluster failed ({type(error).__name__}): its workers or its scheduler died. {advice}"
        ) from error
    finally:
        if client is not cluster:
            client.close()  # also releases its futures


def _client(cluster: Any, client_type: Any) -> Any:
    if isinstance(cluster, client_type):
        return cluster
    if not isinstance(cluster, str):
        raise InputError(
            f"cluster must be a Dask client or an address like tcp://host:8786, got {type(cluster).__name__}."
        )
    from distributed.comm.addressing import resolve_address

    try:
        resolve_address(cluster)  # a client with an invalid address would keep the process alive for ever
        return client_type(cluster, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cluster must be the address of a Dask scheduler, like tcp://host:8786; nothing answers at "
            f"{cluster!r}. Start one with: dask scheduler."
        ) from error
