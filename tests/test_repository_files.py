"""The files for the public host: workflows, forms, citation, settings of tools and services."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts import ROOT
from tables import each_row
from tracked_files import tracked_files

import builder as xb

HOST = ROOT / ".github"
WORKFLOWS = sorted((HOST / "workflows").glob("*.yml"))
BUG_REPORT = HOST / "ISSUE_TEMPLATE" / "bug_report.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Repository"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = {
    *re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE),
    *re.findall(r"^STAMP\w* = (\S+)$", MAKEFILE, re.MULTILINE),
}


class UniqueKeys(yaml.SafeLoader):
    """A loader that refuses a key that occurs twice, as GitHub does."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{keys} {node.start_mark}"
        return super().construct_mapping(node, deep)


def parsed(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), UniqueKeys)


def steps_of(workflow: Any) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def commands_of(workflow: Any) -> str:
    return "\n".join(step["run"] for step in steps_of(workflow) if "run" in step)


@each_row("path", [*HOST.rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"])
def test_the_file_is_a_mapping(path: Path) -> None:
    assert isinstance(parsed(path), dict)


@each_row("path", WORKFLOWS)
def test_a_workflow(path: Path) -> None:
    workflow = parsed(path)
    assert workflow["name"] == path.stem
    assert "workflow_dispatch" in workflow[True]  # YAML 1.1 reads the key `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job)
        assert job["steps"][0]["uses"].startswith("actions/checkout@")
        assert job["steps"][0]["with"] == {"persist-credentials": False}
    for step in steps_of(workflow):
        assert ("uses" in step) != ("run" in step), step
        if "uses" in step:
            # Only actions of the host itself.
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])


@each_row("path", WORKFLOWS)
def test_the_commands_of_a_workflow_exist(path: Path) -> None:
    commands = commands_of(parsed(path))
    assert commands
    called = re.findall(r"\bmake (\S+)", commands)
    assert called
    assert set(called) <= TARGETS
    for variable in re.findall(r"\b([A-Z_]+)=", commands):
        assert f"\n{variable} =" in MAKEFILE, variable
    for script in re.findall(r"\btools/\S+", commands):
        assert (ROOT / script).exists(), script
    for extras in re.findall(r"--editable \"\.\[([^]]+)\]", commands):
        known = {*PROJECT["optional-dependencies"], "$EXTRA"}
        assert set(extras.split(",")) <= known


def test_pull_requests_run_the_checks_of_the_project() -> None:
    """The targets of .ci/run, and the distributions."""
    checks = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / ".ci" / "run").read_text()))
    workflow = parsed(HOST / "workflows" / "ci.yml")
    called = set(re.findall(r"\bmake ([a-z-]+)", commands_of(workflow)))
    assert called == {*checks, "dist"}
    assert "pull_request" in workflow[True]
    versions = {str(step.get("with", {}).get("python-version")) for step in steps_of(workflow)}
    assert PROJECT["requires-python"].removeprefix(">=") in versions


def test_the_versions_of_python_are_the_same_everywhere() -> None:
    """The wheel is tried with each version that tools/find_python.sh selects."""
    finder = (ROOT / "tools" / "find_python.sh").read_text(encoding="utf-8")
    oldest, newest = re.findall(r"default\) oldest=(\d+) newest=(\d+) ", finder)[0]
    versions = {f"3.{minor}" for minor in range(int(oldest), int(newest) + 1)}
    prefix = "Programming Language :: Python :: 3."
    classifiers = {line for line in PROJECT["classifiers"] if line.startswith(prefix)}
    assert classifiers == {f"Programming Language :: Python :: {version}" for version in versions}
    wheel = parsed(HOST / "workflows" / "ci.yml")["jobs"]["wheel"]
    (tried,) = (s["run"] for s in wheel["steps"] if "try_wheel" in s.get("run", ""))
    assert set(re.findall(r"\bpython(3\.\d+)", tried)) == versions
    (installed,) = (s["with"] for s in wheel["steps"] if "setup-python" in s.get("uses", ""))
    assert set(installed["python-version"].split()) == versions


def test_only_the_site_is_published() -> None:
    granted = {
        path.stem: job["permissions"]
        for path in WORKFLOWS
        for job in parsed(path)["jobs"].values()
        if "permissions" in job
    }
    assert granted == {"site": {"contents": "read", "pages": "write", "id-token": "write"}}
    assert set(parsed(HOST / "workflows" / "site.yml")[True]) == {"workflow_dispatch"}


def test_the_gpu_runner_is_started_by_hand_only() -> None:
    workflow = parsed(HOST / "workflows" / "gpu.yml")
    # A pull request from a stranger must not run on a machine of the project.
    assert set(workflow[True]) == {"workflow_dispatch"}
    extras = workflow[True]["workflow_dispatch"]["inputs"]["extra"]["options"]
    assert set(extras) <= set(PROJECT["optional-dependencies"])
    # An input is not part of a command, which it could change.
    assert "${{" not in commands_of(workflow)
    for job in workflow["jobs"].values():
        assert "self-hosted" in job["runs-on"]


def test_a_bug_report_has_the_program_and_the_versions() -> None:
    fields = {part.get("id"): part for part in parsed(BUG_REPORT)["body"]}
    for name in ("program", "versions"):
        assert fields[name]["validations"] == {"required": True}
    assert "`xlabuilder versions`" in fields["versions"]["attributes"]["label"]


def test_the_citation() -> None:
    citation = parsed(ROOT / "CITATION.cff")
    assert citation["version"] == xb.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == REPOSITORY
    assert citation["url"] == PROJECT["urls"]["Documentation"]


def test_the_hooks_before_a_commit() -> None:
    config = parsed(ROOT / ".pre-commit-config.yaml")
    actionlint, local = config["repos"]
    assert actionlint["rev"].removeprefix("v") in commands_of(parsed(HOST / "workflows" / "ci.yml"))
    # The versions of the tools are those of `make lint`.
    for hook in local["hooks"]:
        command = (
            hook["entry"].removesuffix(" --force-exclude").replace(".venv/bin/python", "$(VENV)")
        )
        assert f"@{command}" in MAKEFILE


def test_the_updates_of_versions() -> None:
    config = parsed(HOST / "dependabot.yml")
    assert config["version"] == 2
    systems = {update["package-ecosystem"]: update for update in config["updates"]}
    assert {*systems} == {"github-actions", "pip"}
    # Each version of jax is tested before it is allowed.
    assert {rule["dependency-name"] for rule in systems["pip"]["ignore"]} == {"jax", "jaxlib"}


@pytest.mark.parametrize(
    "name",
    ["SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", ".github/pull_request_template.md"],
)
def test_the_links_of_a_text(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        if link.startswith("https://github.com/") and not link.startswith(
            "https://github.com/openxla"
        ):
            assert link.startswith(REPOSITORY)
        elif not link.startswith("https://"):
            assert (ROOT / link).exists(), link
    for target in re.findall(r"`make ([a-z-]+)`", text):
        assert target in TARGETS


def test_commands_for_contributors_have_an_interpreter_that_exists() -> None:
    """Programs in tools are not executable files, and `python` may be another environment's."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert not re.findall(r"`(?:python3?|\w+/\w+\.py) .*?`", text)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: git lists no files")
def test_the_source_distribution_has_each_file_of_the_root() -> None:
    """`make dist` compares all files; a file that a run left in the root is easily committed."""
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    directives = [line.split() for line in lines if line.startswith(("graft", "include"))]
    patterns = ["pyproject.toml", "MANIFEST.in", *(p for _, *rest in directives for p in rest)]
    roots = {file.partition("/")[0] for file in tracked_files()}
    assert not [root for root in roots if not any(fnmatch(root, p) for p in patterns)]
