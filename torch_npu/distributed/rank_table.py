"""The rank-table file (``RANK_TABLE_FILE``): which rank is which device of which server.

Layout of Atlas A2 (HCCL user guide): ``status`` "completed", ``version`` "1.0", ``server_count``, and in
``server_list`` the servers with their devices (``device_id``, ``device_ip``, ``rank_id``), all as text.
"""

from __future__ import annotations

import json
from typing import Any


class RankTableError(ValueError):
    """The file is not what HCCL accepts; the message names the place."""


def check_rank_table(path: str) -> list[tuple[str, int]]:
    """(server, device) of every rank. `RankTableError` names what is wrong."""
    try:
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
    except (OSError, ValueError) as error:
        raise RankTableError(f"rank table {path!r}: {error}, error code is EI0004") from error

    def need(condition: bool, what: str) -> None:
        if not condition:
            raise RankTableError(f"rank table {path!r}: {what}, error code is EI0004")

    need(isinstance(table, dict), "expected an object")
    need(table.get("status") == "completed", f'status is {table.get("status")!r}; expected "completed"')
    need(str(table.get("version")) in ("1.0", "1.1", "1.2"), f'version is {table.get("version")!r}; expected "1.0"')
    servers = table.get("server_list")
    need(isinstance(servers, list) and bool(servers), "server_list is missing or empty")
    count = table.get("server_count")
    need(str(count) == str(len(servers)), f"server_count is {count!r}, server_list has {len(servers)} servers")
    found: dict[int, tuple[str, int]] = {}
    for server in servers:
        _server(server, len(servers), found, need)
    need(sorted(found) == list(range(len(found))), f"rank_id values {sorted(found)} are not 0..{len(found) - 1}")
    return [found[r] for r in range(len(found))]


def _server(server: Any, servers: int, found: dict[int, tuple[str, int]], need: Any) -> None:
    need(isinstance(server, dict) and isinstance(server.get("server_id"), str), "a server without server_id")
    devices = server.get("device")
    need(isinstance(devices, list) and bool(devices), f"server {server['server_id']} has no device")
    ranks = []
    for device in devices:
        where = f"server {server['server_id']}"
        for key in ("device_id", "rank_id"):
            need(
                str(device.get(key, "")).isdigit(), f"{where}: {key} is {device.get(key)!r}; expected a number as text"
            )
        need(servers == 1 or bool(device.get("device_ip")), f"{where}: device_ip is missing; several servers need it")
        rank = int(device["rank_id"])
        need(rank not in found, f"{where}: rank_id {rank} is there twice")
        found[rank] = (server["server_id"], int(device["device_id"]))
        ranks.append(rank)
    ranks.sort()
    need(ranks == list(range(ranks[0], ranks[0] + len(ranks))), f"ranks {ranks} of a server are not contiguous")
