"""The manifests for Kubernetes fit the schemas that their projects publish, and each other's names.

`tests/data/kubernetes` has these schemas at the commit that `source` names, without
descriptions, defaults and the status, which users do not write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from graphopt.runtime.distributed.world import world_of_environment

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
# keyword -> true for a value that fits
LIMITS: dict[str, Any] = {
    "enum": lambda value, allowed: value in allowed,
    "pattern": lambda value, pattern: re.search(pattern, str(value)) is not None,
    "minimum": lambda value, least: value >= least,
    "maximum": lambda value, most: value <= most,
    "minLength": lambda value, least: len(value) >= least,
    "maxLength": lambda value, most: len(value) <= most,
    "maxItems": lambda value, most: len(value) <= most,
    "minProperties": lambda value, least: len(value) >= least,
    "required": lambda value, names: not set(names) - set(value),
}
READ = {
    "type",
    "properties",
    "additionalProperties",
    "items",
    "x-kubernetes-int-or-string",
    *LIMITS,
}


def manifest(name: str) -> Any:
    """Read an example's manifest."""
    return yaml.safe_load((ROOT / "examples" / "kubernetes" / f"{name}.yaml").read_text("utf-8"))


def published(name: str) -> Any:
    """Read the recorded schema of its kind, with the names of kind and version."""
    return json.loads((ROOT / "tests" / "data" / "kubernetes" / f"{name}.json").read_text("utf-8"))


def faults(value: Any, schema: dict[str, Any], where: str = "") -> Iterator[str]:
    """Yield the places where a value does not fit a schema, including unknown fields."""
    assert READ.issuperset(schema), f"{where}: read {set(schema) - READ}, too"
    if schema.get("x-kubernetes-int-or-string"):
        kinds: tuple[type, ...] = (int, str)
    else:
        kinds = (TYPES[schema["type"]],)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        yield f"{where}: {value!r} is no {' or '.join(kind.__name__ for kind in kinds)}"
        return
    for keyword in schema.keys() & LIMITS:
        if not LIMITS[keyword](value, schema[keyword]):
            yield f"{where}: {value!r}, but {keyword} is {schema[keyword]}"
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    for key, inner in value.items() if isinstance(value, dict) else ():
        if where == "" and key == "metadata":  # its schema is that of all kinds
            continue
        if (wanted := fields.get(key, others)) is None:
            yield f"{where}.{key}: no such field"
        else:
            yield from faults(inner, wanted, f"{where}.{key}")
    for index, inner in enumerate(value if isinstance(value, list) else ()):
        yield from faults(inner, schema["items"], f"{where}[{index}]")


@pytest.mark.parametrize("name", ["jobset", "trainjob"])
def test_manifests_fit_the_published_schemas(name: str) -> None:
    """Every field is known, and has a value of its type."""
    found, wanted = manifest(name), published(name)
    assert (found["apiVersion"], found["kind"]) == (wanted["apiVersion"], wanted["kind"])
    assert not list(faults(found, wanted["schema"]))


def fields(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all fields of a manifest whose names the schema defines."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items if isinstance(value, dict | list) else ():
        if isinstance(key, str) and way[-1:] != ("requests",):
            yield (*way, key)
        if (*way, key) != ("metadata",) and isinstance(inner, dict | list):
            yield from fields(inner, (*way, key))


@pytest.mark.parametrize("name", ["jobset", "trainjob"])
def test_a_wrong_field_is_found(name: str) -> None:
    """A misspelt field, or a value of another type, is found at every place."""
    whole, schema = manifest(name), published(name)["schema"]
    ways = list(fields(whole))
    assert len(ways) > 15
    for way in ways:
        changed = deepcopy(whole)
        parent = changed
        for key in way[:-1]:
            parent = parent[key]
        parent[way[-1] + "x"] = parent.pop(way[-1])
        assert any("no such field" in fault for fault in faults(changed, schema)), way
        if way == ("metadata",):
            continue
        del parent[way[-1] + "x"]
        parent[way[-1]] = 1.5
        assert list(faults(changed, schema)), way


def test_pods_are_as_many_as_trainers() -> None:
    """The JobSet's numbers agree, and its variables assign each pod its trainer."""
    jobset = manifest("jobset")
    name, (job,) = jobset["metadata"]["name"], jobset["spec"]["replicatedJobs"]
    pods = job["template"]["spec"]
    (container,) = pods["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value", "1") for each in container["env"]}
    world = world_of_environment(variables)
    assert world is not None
    assert (world.trainer, world.trainers) == (1, pods["completions"])
    assert pods["completions"] == pods["parallelism"]
    port = container["ports"][0]["containerPort"]
    assert world.endpoints == (f"{name}-{job['name']}-0-0.{name}:{port}",)
