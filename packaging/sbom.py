#!/usr/bin/env python3
"""Prints the software bill of materials of the binary in CycloneDX format: its Rust crates and the packages of its web page.

usage: sbom.py VERSION
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def crates() -> "tuple[list[dict], dict[str, list[str]]]":
    """The crates that are linked into the binary, and the dependencies between them."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    # The embedded programs are built from this workspace, too.
    roots = [id for id, package in packages.items() if package["name"] in ("assize-cli", "assize-guest", "assize-negotiator")]

    def linked(id: str) -> "list[str]":
        kinds = {dep["pkg"]: [kind["kind"] for kind in dep["dep_kinds"]] for dep in nodes[id]["deps"]}
        macros = {dep for dep in kinds if any("proc-macro" in target["kind"] for target in packages[dep]["targets"])}
        return sorted(dep for dep, of in kinds.items() if None in of and dep not in macros)

    reached, todo = set(roots), list(roots)
    while todo:
        new = set(linked(todo.pop())) - reached
        reached |= new
        todo += new
    references = {id: f"pkg:cargo/{packages[id]['name']}@{packages[id]['version']}" for id in reached}
    components = []
    for id in sorted(reached, key=references.__getitem__):
        package = packages[id]
        component = {
            "type": "library",
            "bom-ref": references[id],
            "name": package["name"],
            "version": package["version"],
            "purl": references[id],
        }
        if package.get("license"):
            component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        components.append(component)
    depends = {references[id]: sorted(references[dep] for dep in linked(id)) for id in reached}
    return components, depends


def page() -> "list[dict]":
    """The npm packages that are bundled into the web page."""
    lock = json.loads((ROOT / "ui/package-lock.json").read_text())
    components = []
    for path, package in sorted(lock["packages"].items()):
        if not path or package.get("dev") or package.get("optional") or package.get("peer"):
            continue
        name = path.rsplit("node_modules/", 1)[1]
        purl = f"pkg:npm/{name.replace('@', '%40', 1)}@{package['version']}"
        component = {"type": "library", "bom-ref": purl, "name": name, "version": package["version"], "purl": purl}
        if package.get("license"):
            component["licenses"] = [{"expression": package["license"]}]
        components.append(component)
    return components


def main() -> None:
    version = sys.argv[1]
    libraries, depends = crates()
    bundled = page()
    binary = f"pkg:generic/assize@{version}"
    own = [component["bom-ref"] for component in libraries if component["name"] == "assize-cli"]
    direct = own + [component["bom-ref"] for component in bundled]
    graph = [{"ref": binary, "dependsOn": sorted(direct)}]
    graph += [{"ref": reference, "dependsOn": of} for reference, of in sorted(depends.items())]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": binary, "name": "assize", "version": version, "purl": binary}
        },
        "components": libraries + bundled,
        "dependencies": graph,
    }
    print(json.dumps(document, indent=2))


main()
