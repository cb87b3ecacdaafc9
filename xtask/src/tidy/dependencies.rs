//! Who may depend on whom: `room -> wire`, the server on all, nothing on the server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Finding;
use crate::step::StepError;

/// A package of the workspace and what it may depend on.
struct Law {
    package: &'static str,
    /// Packages of the workspace, in any kind of dependency.
    may_use: &'static [&'static str],
    /// Knows the system only through its arguments.
    pure: bool,
}

const LAWS: [Law; 11] = [
    Law { package: "danmaku-wire", may_use: &[], pure: true },
    Law { package: "danmaku-placement", may_use: &[], pure: true },
    Law { package: "danmaku-mailbox", may_use: &[], pure: true },
    Law { package: "danmaku-words", may_use: &[], pure: true },
    Law { package: "danmaku-room", may_use: &["danmaku-wire", "danmaku-words"], pure: true },
    Law { package: "danmaku-replay", may_use: &["danmaku-wire"], pure: true },
    // Its protocol parts know no socket, but the client around them is one.
    Law { package: "danmaku-webhook", may_use: &["danmaku-wire"], pure: false },
    Law {
        package: "danmaku",
        may_use: &[
            "danmaku-wire",
            "danmaku-placement",
            "danmaku-mailbox",
            "danmaku-room",
            "danmaku-words",
            "danmaku-webhook",
            "danmaku-replay",
        ],
        pure: false,
    },
    // What users build against: none of the server's crates.
    Law { package: "danmaku-client", may_use: &[], pure: false },
    Law { package: "danmaku-loadtest", may_use: &["danmaku-wire", "danmaku-client"], pure: false },
    Law { package: "xtask", may_use: &[], pure: false },
];

/// Crates that reach for sockets, threads, clocks or random numbers; a pure crate links none of them,
/// not even through another.
const IMPURE: [&str; 9] =
    ["tokio", "mio", "rustix", "socket2", "hyper", "hyper-util", "getrandom", "rand", "crossbeam-channel"];

/// Crates whose licence or purpose keeps them out of what is shipped.
const FOR_TESTS: [&str; 1] = ["yawc"];

/// One dependency as a manifest declares it.
struct Declared<'m> {
    from: &'m str,
    to: &'m str,
    for_tests: bool,
}

pub(super) fn broken_law(metadata: &Value) -> Result<Vec<Finding>, StepError> {
    let members = strings(&metadata["workspace_members"]);
    let packages = metadata["packages"].as_array().ok_or(StepError::Metadata("packages"))?;
    let names: BTreeMap<&str, &str> = packages
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let ours: BTreeSet<&str> = members.iter().filter_map(|id| names.get(id).copied()).collect();
    let declared = declared(packages, &members);

    let mut findings = Vec::new();
    for name in &ours {
        match LAWS.iter().find(|law| law.package == *name) {
            None => {
                findings.push(finding(name, "is not in the dependency law (xtask/src/tidy/dependencies.rs)"))
            }
            Some(law) => {
                let own = declared.iter().filter(|dependency| dependency.from == *name);
                findings.extend(own.filter_map(|dependency| judge(law, dependency, &ours)));
            }
        }
    }
    let nodes =
        metadata["resolve"]["nodes"].as_array().ok_or(StepError::Metadata("resolved dependencies"))?;
    let edges = linked(nodes);
    for law in LAWS.iter().filter(|law| law.pure) {
        let root = members.iter().find(|id| names.get(*id) == Some(&law.package));
        let reached = root.map(|id| reachable(id, &edges)).unwrap_or_default();
        let reached: BTreeSet<&str> = reached.iter().filter_map(|id| names.get(id).copied()).collect();
        for impure in IMPURE.iter().filter(|name| reached.contains(*name)) {
            findings.push(finding(law.package, &format!("is pure and links {impure}")));
        }
    }
    Ok(findings)
}

fn judge(law: &Law, dependency: &Declared<'_>, ours: &BTreeSet<&str>) -> Option<Finding> {
    let to = dependency.to;
    if ours.contains(to) && !law.may_use.contains(&to) {
        return Some(finding(law.package, &format!("may not depend on {to}")));
    }
    if FOR_TESTS.contains(&to) && !dependency.for_tests {
        return Some(finding(law.package, &format!("may depend on {to} in its tests only")));
    }
    None
}

fn declared<'m>(packages: &'m [Value], members: &[&str]) -> Vec<Declared<'m>> {
    let mut all = Vec::new();
    for package in packages {
        let Some(from) = package["name"].as_str() else { continue };
        if !package["id"].as_str().is_some_and(|id| members.contains(&id)) {
            continue;
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            if let Some(to) = dependency["name"].as_str() {
                all.push(Declared { from, to, for_tests: dependency["kind"] == "dev" });
            }
        }
    }
    all
}

/// Package ids with the ids that are linked into them: neither dev- nor build-dependencies.
fn linked(nodes: &[Value]) -> BTreeMap<&str, Vec<&str>> {
    let mut edges = BTreeMap::new();
    for node in nodes {
        let Some(id) = node["id"].as_str() else { continue };
        let dependencies = node["deps"].as_array().into_iter().flatten();
        let normal = dependencies.filter(|dependency| {
            dependency["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
        });
        edges.insert(id, normal.filter_map(|dependency| dependency["pkg"].as_str()).collect());
    }
    edges
}

fn reachable<'m>(root: &'m str, edges: &BTreeMap<&'m str, Vec<&'m str>>) -> BTreeSet<&'m str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.extend(edges.get(id).into_iter().flatten());
        }
    }
    reached
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn finding(package: &str, message: &str) -> Finding {
    Finding { path: package.to_owned(), line: 0, message: message.to_owned() }
}
