"""The description is whole, and its examples are answered as it says."""

import re
from typing import Any

import pytest

from regard.serve.app import DOORS
from regard.serve.openapi import ENDPOINTS, describe

TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool}


def alike(found: Any, example: Any, where: str = "") -> None:
    """The same names, and the same kinds of values; numbers, texts and the length of lists are their own."""
    if isinstance(example, dict):
        assert isinstance(found, dict), where
        assert found.keys() == example.keys(), where
        for key in example:
            alike(found[key], example[key], f"{where}.{key}")
    elif isinstance(example, list):
        assert isinstance(found, list), where
        assert found or not example, where
        for each in found:
            alike(each, example[0], f"{where}[]")
    elif isinstance(example, float):
        assert isinstance(found, int | float), where
    else:
        assert type(found) is type(example), where


def test_every_endpoint_of_ours_is_described_and_none_that_there_is_not():
    served = {(way.method.lower(), way.path, door.name) for door in DOORS for way in door.ways}
    described = {(each.method, each.path, each.door) for each in ENDPOINTS}
    assert described <= served
    assert {each for each in served - described if each[2] in ("regard", "openai", "tei")} == set()


def test_it_is_openapi(server):
    found = server.get("/openapi.json").json()
    assert found == describe(DOORS)
    assert re.fullmatch(r"3\.1\.\d", found["openapi"])
    assert {*found} == {"openapi", "info", "paths", "components", "security"}
    assert found["info"]["title"]
    assert found["info"]["version"]
    ids = [way["operationId"] for path in found["paths"].values() for way in path.values()]
    assert len({*ids}) == len(ids)
    for path, ways in found["paths"].items():
        for method, way in ways.items():
            assert method in ("get", "post", "put", "patch", "delete")
            assert path.startswith("/")
            assert {"200", "400", "401", "413", "429", "503"} <= {*way["responses"]}
            assert all(each["description"] for each in way["responses"].values())
            assert {each["name"] for each in way.get("parameters", [])} == {*re.findall(r"{(\w+)}", path)}


@pytest.mark.parametrize("each", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")
def test_every_example_is_answered_as_it_says(server, each):
    assert {*each.asked} <= {*each.fields} or "{" in each.path
    for name, value in each.asked.items():
        kind = each.fields.get(name, ("any", ""))[0]
        assert isinstance(value, TYPES.get(kind, object))
    with server.client() as client:
        if each.method == "get":
            answered = client.get(each.path.format(**each.asked))
        else:
            answered = client.post(each.path, json=each.asked)
    assert answered.status_code == 200, answered.text
    found, wanted = answered.json(), each.answered
    if each.path == "/v1/classify":
        found["results"][0]["probabilities"] |= wanted["results"][0]["probabilities"]
    if each.path == "/v1/about":
        found["models"] = [model for model in found["models"] if model["task"] == "embed"]
    if each.path == "/info":
        found["model_type"] = wanted["model_type"]
    alike(found, wanted)
