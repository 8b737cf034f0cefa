"""The Secret with the ssh key of a TrainingJob, in virtual time."""

import base64
import json
import logging

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from framework.kube.resources import (
    SECRETS,
)
from tests.controller.kinds.jobworlds import (
    end,
    find_role,
    list_events,
    open_jobs,
    run,
)
from tests.support.builders import NAMESPACE

pytestmark = pytest.mark.looptime


async def test_key_is_made_once_and_only_the_secret_has_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        (secret,) = jobs.world.list_objects(SECRETS)
        await end(jobs)
        assert jobs.world.list_objects(SECRETS) == [secret]
        shown = json.dumps([list_events(jobs), jobs.read(), jobs.read_framework()])
        requests = [str(request) for request in jobs.world.programs[0].client.sent]
    assert secret["metadata"]["name"] == "elastic-ssh"
    assert set(secret["data"]) == {"id_rsa", "id_rsa.pub", "config"}
    data = {name: base64.b64decode(text) for name, text in secret["data"].items()}
    private = load_ssh_private_key(data["id_rsa"], None)
    assert isinstance(private, Ed25519PrivateKey)
    assert load_ssh_public_key(data["id_rsa.pub"]) == private.public_key()
    assert b"StrictHostKeyChecking no" in data["config"]
    text = " ".join([shown, caplog.text, *requests, *(str(vars(r)) for r in caplog.records)])
    assert secret["data"]["id_rsa"][60:120] not in text
    assert "PRIVATE KEY" not in text


async def test_key_that_an_annotation_names_is_used_and_none_is_made() -> None:
    async with open_jobs("TrainingJob") as jobs:
        jobs.world.start()
        body = jobs.build()
        body["metadata"]["annotations"] = {"arena.kubeflow.org/ssh-secret": "mine"}
        await jobs.world.user.create(jobs.resource, NAMESPACE, body)
        await jobs.wait_for_phase("Running")
        assert jobs.world.list_objects(SECRETS) == []
        pods = find_role(jobs.read_framework(), "worker")["task"]["pod"]["spec"]
        assert [v["secret"]["secretName"] for v in pods["volumes"] if "secret" in v] == ["mine"]
