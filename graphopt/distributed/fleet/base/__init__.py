"""Roles, strategies and tools of fleet (paddle.distributed.fleet.base)."""
