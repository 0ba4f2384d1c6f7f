"""The description is whole, and its examples are answered as it says."""

import re
from typing import Any

import httpx
import pytest

from regard.serve.app import DOORS
from regard.serve.endpoint import Endpoint
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
    assert described == served


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
            assert {"400", "401", "413", "429", "503"} <= {*way["responses"]}
            assert {"200", "201", "204"} & {*way["responses"]}
            assert all(each["description"] for each in way["responses"].values())
            named = {each["name"] for each in way.get("parameters", []) if each["in"] == "path"}
            assert named == {*re.findall(r"{(\w+)}", path)}
            bodies = way.get("requestBody", {}).get("content", {})
            assert bool(bodies) == (method in ("post", "put", "patch"))
            for body in bodies.values():
                assert {*body["schema"]["required"]} <= {*body["example"]} <= {*body["schema"]["properties"]}


def ask(client: httpx.Client, each: Endpoint, **own: str) -> httpx.Response:
    """As the example does, but for what has another name here."""
    given = {**each.asked, **own}
    path = each.path.format(**given)
    sent = {name: value for name, value in given.items() if name not in each.in_path}
    if each.method in ("get", "delete"):
        return client.request(each.method, path, params=sent)
    if each.form:
        return client.post(path, data=sent, files={"file": ("text.txt", sent.pop("file"))})
    return client.request(each.method, path, json=sent)


def made(client: httpx.Client, each: Endpoint) -> dict[str, str]:
    """Names of what an example speaks of, which is made as the examples say."""
    by_path = {other.path: other for other in ENDPOINTS if other.method == "post"}
    if "id" in each.in_path:
        whole = ask(client, by_path[each.path[: each.path.index("/{")]])
        return {"id": whole.json()["glossary_id"]}
    if "key" in each.in_path:
        return {"key": ask(client, by_path["/translate_file"]).json()["translatedFileUrl"].rpartition("/")[2]}
    return {}


@pytest.mark.parametrize("each", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")
def test_every_example_is_answered_as_it_says(server, each):
    assert {*each.asked} <= {*each.fields, *each.in_path}
    for name, value in each.asked.items():
        kind = each.fields.get(name, ("any", ""))[0]
        assert isinstance(value, TYPES.get(kind, object))
    with server.client() as client:
        answered = ask(client, each, **made(client, each))
    assert answered.status_code == each.status, answered.text
    if each.answered is None:
        assert not answered.content
        return
    assert answered.headers["content-type"].split(";")[0] == each.media
    found, wanted = answered.json() if each.media == "application/json" else answered.text, each.answered
    if each.path == "/v1/classify":
        found["results"][0]["probabilities"] |= wanted["results"][0]["probabilities"]
    if each.path == "/v1/about":
        found["models"] = [model for model in found["models"] if model["task"] == "embed"]
    if each.path == "/info":
        found["model_type"] = wanted["model_type"]
    alike(found, wanted)
