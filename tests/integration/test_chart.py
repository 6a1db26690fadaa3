"""Helm and Kubernetes accept the chart, and what it renders are settings and commands of ours. Helm and kubeconform are
built from the module proxy of Go; the schemas of Kubernetes are in a module of its own. There is no cluster, so nothing
is deployed.
"""

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from siltstone.server.settings.node import load_node_settings
from support.pages.documents import ROOT
from support.pages.known_commands import assert_known
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.xdist_group("chart"), pytest.mark.timeout(1800)]

CHART = ROOT / "deploy" / "helm" / "siltstone"
TOOLS = ("helm.sh/helm/v3/cmd/helm@v3.22.0", "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0")
SCHEMAS = "k8s.io/cli-runtime@v0.37.0"
KUBERNETES = "1.33.0"
WITHOUT_SCHEMA = ["ServiceMonitor"]
"""The operator's module, which has its schema, is not to be had everywhere; its fields are checked here."""
NEEDED = {
    "bucket": "s3://flights/store?region=eu-central-1",
    "metadata": "postgresql://siltstone@db.example/siltstone",
}
CASES: Mapping[str, dict[str, Any]] = {
    "three brokers": NEEDED,
    "one broker, SQLite": {"bucket": NEEDED["bucket"], "replicas": 1},
    "log in the bucket": {**NEEDED, "log": {"location": "bucket"}},
    "everything": {
        **NEEDED,
        "secrets": {"s3": "keys", "postgresql": "database", "files": "certificates"},
        "settings": {"topics.retention.ms": "7d", "groups.group_initial_rebalance_delay_ms": 3000},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "backup": {"schedule": "17 * * * *", "claimName": "backups", "objects": "s3://copies/flights"},
        "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "kafka", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}], "serviceAccount": {"annotations": {"role": "siltstone"}},
    },
}  # fmt: skip
REFUSED: Mapping[str, tuple[dict[str, Any], str]] = {
    "several brokers on SQLite": ({"bucket": NEEDED["bucket"]}, "metadata"),
    "a bucket in a folder": ({**NEEDED, "bucket": "file:///store"}, "bucket"),
    "a password in a URL": ({**NEEDED, "metadata": "postgresql://u:secret@db/x"}, "metadata"),
    "an unknown value": ({**NEEDED, "replica": 3}, "replica"),
    "a grace period that is too short": ({**NEEDED, "terminationGracePeriodSeconds": 50}, "drain.seconds"),
    "backups nowhere": ({**NEEDED, "backup": {"schedule": "@hourly"}}, "claimName"),
}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the programs; built once in a minute or three."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go to build Helm and kubeconform with")
    folder = tmp_path_factory.mktemp("tools")
    for tool in TOOLS:
        made = subprocess.run(
            [go, "install", tool], env={**os.environ, "GOBIN": str(folder)}, capture_output=True, text=True,
            check=False, timeout=900,
        )  # fmt: skip
        if made.returncode:
            pytest.skip(f"{tool} cannot be built here: {made.stderr.splitlines()[-1]}")
    return folder


@pytest.fixture(scope="module")
def schemas(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where kubeconform finds a strict schema for each kind: a property that Kubernetes does not have is an error."""
    found = subprocess.run(
        ["go", "mod", "download", "-json", SCHEMAS], cwd=tools, capture_output=True, text=True, check=True
    )
    swagger = json.loads(
        (Path(json.loads(found.stdout)["Dir"]) / "artifacts/openapi/swagger.json").read_text()
    )
    definitions = swagger["definitions"]
    for each in definitions.values():
        if "properties" in each:
            each.setdefault("additionalProperties", False)
    definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = {"type": ["string", "integer"]}
    definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    folder = tmp_path_factory.mktemp("schemas")
    for name, each in definitions.items():
        for kind in each.get("x-kubernetes-group-version-kind", []):
            version = "-".join(part for part in (kind["group"].split(".")[0], kind["version"]) if part)
            schema = {"$ref": f"#/definitions/{name}", "definitions": definitions}
            if kind["kind"] in KINDS:
                (folder / f"{kind['kind'].lower()}-{version}.json").write_text(json.dumps(schema))
    return f"{folder}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"


KINDS = {
    "ConfigMap", "CronJob", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount",
    "StatefulSet",
}  # fmt: skip


def helm(
    tools: Path, folder: Path, values: Mapping[str, Any], *words: str
) -> subprocess.CompletedProcess[str]:
    file = folder / "given.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    environment = {**os.environ, "HELM_CACHE_HOME": str(folder), "HELM_CONFIG_HOME": str(folder)}
    return subprocess.run(
        [tools / "helm", *words, CHART, "--values", file, "--kube-version", KUBERNETES], env=environment,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def rendered(tools: Path, folder: Path, values: Mapping[str, Any]) -> str:
    done = helm(tools, folder, values, "template", "flights")
    assert done.returncode == 0, done.stderr
    return done.stdout


def judged(tools: Path, schemas: str, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tools / "kubeconform", "-strict", "-summary", "-schema-location", schemas, "-skip", *WITHOUT_SCHEMA, "-"],
        input=text, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def of_kind(documents: Iterable[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    (found,) = (
        each for each in documents if each["kind"] == kind and each["metadata"]["name"].endswith(name)
    )
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_op05_helm_and_the_schemas_of_kubernetes_accept_the_chart(
    name: str, tools: Path, schemas: str, tmp_path: Path, record_tried: RecordTried
) -> None:
    linted = helm(tools, tmp_path, CASES[name], "lint", "--strict")
    assert linted.returncode == 0, linted.stdout
    text = rendered(tools, tmp_path, CASES[name])
    done = judged(tools, schemas, text)
    assert done.returncode == 0 and "Invalid: 0, Errors: 0" in done.stdout, done.stdout
    wrong = judged(tools, schemas, text.replace("terminationGracePeriodSeconds", "terminationGraceSeconds"))
    assert wrong.returncode == 1 and "terminationGraceSeconds" in wrong.stdout, "what is wrong would be found"
    record_tried("objects of Kubernetes", len(list(yaml.safe_load_all(text))))


@pytest.mark.nightly
@pytest.mark.parametrize("name", REFUSED)
def test_op05_the_chart_refuses_what_cannot_run(
    name: str, tools: Path, tmp_path: Path, record_tried: RecordTried
) -> None:
    values, said = REFUSED[name]
    done = helm(tools, tmp_path, values, "template", "flights")
    assert done.returncode != 0 and said in done.stderr, done
    record_tried("values that are refused", 1)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_op05_what_the_chart_renders_is_settings_and_commands_of_ours(
    name: str, tools: Path, tmp_path: Path, record_tried: RecordTried
) -> None:
    documents = list(yaml.safe_load_all(rendered(tools, tmp_path, CASES[name])))
    written = of_kind(documents, "ConfigMap")["data"]["siltstone.toml"]
    assert tomllib.loads(written)
    (tmp_path / "siltstone.toml").write_text(written)
    for workload in (each for each in documents if each["kind"] in ("StatefulSet", "Deployment")):
        pod = workload["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert assert_known(" ".join(container["args"]))
        given = {each["name"]: each.get("value", "0") for each in container["env"]}
        settings = load_node_settings(
            tmp_path, environment={key: value for key, value in given.items() if key.startswith("SILTSTONE")}
        )
        assert settings.buckets[0] == NEEDED["bucket"] and settings.admin.listeners == "0.0.0.0:9644"
        assert {each["name"] for each in container["volumeMounts"]} <= volumes_of(workload)
        for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            assert container[probe]["httpGet"] == {"path": path, "port": "admin"}
        assert not [each for each in container["env"] if "PASSWORD" in each["name"] and "value" in each]
        assert (
            pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
        )
    assert_drained(documents)
    record_tried("charts rendered", 1)


def volumes_of(workload: Mapping[str, Any]) -> set[str]:
    claimed = workload["spec"].get("volumeClaimTemplates", [])
    return {each["name"] for each in workload["spec"]["template"]["spec"]["volumes"]} | {
        each["metadata"]["name"] for each in claimed
    }


def assert_drained(documents: list[dict[str, Any]]) -> None:
    """Several brokers hand over before they are stopped, and are taken one by one; one broker has nobody."""
    brokers = of_kind(documents, "StatefulSet")["spec"]
    pod = brokers["template"]["spec"]
    hook = pod["containers"][0].get("lifecycle")
    assert (hook is None) == (brokers["replicas"] == 1)
    if hook:
        *_, line = hook["preStop"]["exec"]["command"]
        assert "siltstone nodes drain" in line and line.endswith("|| true")
        seconds = int(line.split()[1])
        assert pod["terminationGracePeriodSeconds"] >= seconds + 40
    budget = of_kind(documents, "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= brokers["template"]["metadata"]["labels"].items()


@pytest.mark.nightly
def test_op05_prometheus_finds_every_process_under_the_job_of_the_alert_rules(
    tools: Path, tmp_path: Path, record_tried: RecordTried
) -> None:
    documents = list(yaml.safe_load_all(rendered(tools, tmp_path, CASES["everything"])))
    monitor = of_kind(documents, "ServiceMonitor")
    service = of_kind(documents, "Service", "-admin")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    matching = [
        each
        for each in documents
        if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()
    ]
    assert matching == [service]
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert {"targetLabel": "job", "replacement": "siltstone"} in monitor["spec"]["endpoints"][0][
        "relabelings"
    ]
    assert 'job="siltstone"' in (ROOT / "dashboards" / "alerts.yml").read_text()
    for kind in ("StatefulSet", "Deployment"):
        labels = of_kind(documents, kind)["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
    record_tried("services for Prometheus", 1)
