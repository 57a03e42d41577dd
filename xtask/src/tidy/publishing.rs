//! Whether the crates can be published: each with what a registry demands, in some order, and with documentation that is built
//! without LLVM.
//!
//! A registry takes a crate once it has everything that the crate names with a version, for development too. What is named by
//! path alone is not in the published manifest. Not here: that a packed crate builds, which `cargo package` checks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::edges::LLVM;
use super::layers::short;
use super::tree::{Problem, Tree};
use crate::workspace::{Dependency, Metadata, Package};

/// The configuration in which no crate is linked with LLVM; it is in `crates/codegen-llvm/Cargo.toml`.
const NO_LINKING: &str = "kiln_no_llvm_linking";

/// The licence texts that each package has, as links to those of the project.
const TEXTS: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// Checks every crate that is published.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let mut problems = problems(&tree.metadata);
    for package in tree.metadata.members().filter(|its| is_published(its)) {
        for text in TEXTS {
            let path = format!("crates/{}/{text}", short(&package.name));
            if !tree.files.contains(&path) {
                let message = format!(
                    "a published crate has the licence's text; link it: ln -s ../../{text} {path}"
                );
                problems.push(Problem::new(path, message));
            }
        }
    }
    Ok(problems)
}

fn problems(metadata: &Metadata) -> Vec<Problem> {
    let needed = reach(metadata, |its| !is_by_path(its));
    let linked = reach(metadata, |its| !is_for_development(its));
    let published = metadata.members().filter(|package| is_published(package));
    published
        .flat_map(|package| {
            let mut messages = unstated(package);
            messages.extend(unavailable(metadata, package, &needed));
            let of_package = linked.get(package.name.as_str());
            let needs_llvm =
                of_package.is_some_and(|names| LLVM.iter().any(|name| names.contains(name)));
            if needs_llvm && !is_documented_without_llvm(package) {
                messages.push(format!(
                    "documentation is built without LLVM: \
                     `[package.metadata.docs.rs]` needs `rustc-args = [\"--cfg\", \"{NO_LINKING}\"]`"
                ));
            }
            let path = format!("crates/{}/Cargo.toml", short(&package.name));
            messages
                .into_iter()
                .map(move |message| Problem::new(path.clone(), message))
        })
        .collect()
}

/// The fields that a registry requires, and that the manifest lacks.
fn unstated(package: &Package) -> Vec<String> {
    let fields = [
        ("description", &package.description),
        ("license", &package.license),
    ];
    let missing = fields.iter().filter(|(_, value)| value.is_none());
    missing
        .map(|(name, _)| format!("a published crate needs a `{name}`"))
        .collect()
}

/// The crates of the workspace that a registry cannot have when this one is published.
fn unavailable(metadata: &Metadata, package: &Package, needed: &Reach<'_>) -> Vec<String> {
    let mut messages = Vec::new();
    for dependency in package.dependencies.iter().filter(|its| !is_by_path(its)) {
        let name = short(&dependency.name);
        let Some(other) = metadata
            .members()
            .find(|other| other.name == dependency.name)
        else {
            continue;
        };
        let needs_this = needed
            .get(other.name.as_str())
            .is_some_and(|names| names.contains(package.name.as_str()));
        if !is_published(other) {
            messages.push(format!(
                "a published crate may not depend on `{name}`, which is not published"
            ));
        } else if needs_this && is_for_development(dependency) {
            messages.push(format!(
                "its tests depend on `{name}`, which needs it: no registry can have that first; name one of the two by path alone"
            ));
        }
    }
    messages
}

fn is_published(package: &Package) -> bool {
    let registries = package.publish.as_ref();
    registries.is_none_or(|registries| !registries.is_empty())
}

fn is_for_development(dependency: &Dependency) -> bool {
    dependency.kind.as_deref() == Some("dev")
}

/// Whether a dependency is omitted from the published manifest.
fn is_by_path(dependency: &Dependency) -> bool {
    is_for_development(dependency) && dependency.req == "*"
}

fn is_documented_without_llvm(package: &Package) -> bool {
    let arguments = package.metadata.pointer("/docs/rs/rustc-args");
    let words = arguments.and_then(serde_json::Value::as_array);
    words.is_some_and(|words| words.iter().any(|word| word == NO_LINKING))
}

/// The dependencies of each package, direct or through packages of the workspace.
type Reach<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The packages that each package of the workspace reaches through the dependencies that count.
fn reach(metadata: &Metadata, counts: impl Fn(&Dependency) -> bool) -> Reach<'_> {
    let direct: Reach<'_> = metadata
        .members()
        .map(|package| {
            let names = package.dependencies.iter().filter(|its| counts(its));
            let names = names.map(|its| its.name.as_str()).collect();
            (package.name.as_str(), names)
        })
        .collect();
    let names = direct.keys().copied();
    names.map(|name| (name, beneath(&direct, name))).collect()
}

fn beneath<'a>(direct: &Reach<'a>, name: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left = vec![name];
    while let Some(next) = left.pop() {
        let names = direct.get(next).into_iter().flatten();
        left.extend(names.filter(|name| found.insert(**name)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    fn problems_of(packages: &str) -> Vec<String> {
        let text = format!(
            r#"{{"workspace_members":["1","2","3"],"packages":[{packages},
                {{"name":"inkwell","id":"0"}}]}}"#
        );
        let metadata: Metadata = serde_json::from_str(&text).unwrap();
        said(&problems(&metadata))
    }

    #[test]
    fn a_published_crate_has_the_texts_of_its_licences() {
        let (_folder, mut tree) = Tree::of(&[("crates/a/LICENSE-MIT", "")]);
        let text = r#"{"workspace_members":["1","2"],"packages":[
            {"name":"kiln-a","id":"1","description":"","license":"MIT"},{"name":"kiln-b","id":"2","publish":[]}]}"#;
        tree.metadata = serde_json::from_str(text).unwrap();
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                "crates/a/LICENSE-APACHE: a published crate has the licence's text; link it: ln -s ../../LICENSE-APACHE \
                 crates/a/LICENSE-APACHE"
            ]
        );
    }

    #[test]
    fn tests_may_need_a_crate_above_only_by_path() {
        let circle = |req: &str| {
            format!(
                r#"{{"name":"kiln-low","id":"1","description":"","license":"MIT","dependencies":[
                        {{"name":"kiln-top","kind":"dev","req":"{req}"}},{{"name":"serde","kind":"dev","req":"^1"}}]}},
                    {{"name":"kiln-mid","id":"2","description":"","license":"MIT","dependencies":[
                        {{"name":"kiln-low","req":"^0.1"}}]}},
                    {{"name":"kiln-top","id":"3","description":"","license":"MIT","dependencies":[
                        {{"name":"kiln-mid","req":"^0.1"}},{{"name":"kiln-low","kind":"dev","req":"^0.1"}}]}}"#
            )
        };
        assert_eq!(
            problems_of(&circle("^0.1")),
            [
                "crates/low/Cargo.toml: its tests depend on `top`, which needs it: no registry can have that first; name one of \
                 the two by path alone",
                "crates/top/Cargo.toml: its tests depend on `low`, which needs it: no registry can have that first; name one of \
                 the two by path alone",
            ]
        );
        assert!(problems_of(&circle("*")).is_empty());
    }

    #[test]
    fn a_published_crate_is_described_and_depends_on_published_ones() {
        let packages = r#"{"name":"kiln-a","id":"1","dependencies":[
                {"name":"kiln-tool","req":"^0.1"},{"name":"kiln-tool","kind":"dev","req":"*"}]},
            {"name":"kiln-tool","id":"2","publish":[]},
            {"name":"kiln-b","id":"3","description":"","license":"MIT","publish":["own"]}"#;
        assert_eq!(
            problems_of(packages),
            [
                "crates/a/Cargo.toml: a published crate needs a `description`",
                "crates/a/Cargo.toml: a published crate needs a `license`",
                "crates/a/Cargo.toml: a published crate may not depend on `tool`, which is not published",
            ]
        );
    }

    #[test]
    fn what_may_link_llvm_is_documented_without() {
        let packages = |arguments: &str| {
            format!(
                r#"{{"name":"kiln-gen","id":"1","description":"","license":"MIT","dependencies":[
                        {{"name":"inkwell","req":"^0"}}],"metadata":{{"docs":{{"rs":{{"rustc-args":[{arguments}]}}}}}}}},
                    {{"name":"kiln-user","id":"2","description":"","license":"MIT","dependencies":[
                        {{"name":"kiln-gen","req":"^0"}}],"metadata":null}},
                    {{"name":"kiln-tester","id":"3","description":"","license":"MIT","dependencies":[
                        {{"name":"kiln-gen","kind":"dev","req":"^0"}}]}}"#
            )
        };
        let of = |name: &str| {
            format!(
                "crates/{name}/Cargo.toml: documentation is built without LLVM: `[package.metadata.docs.rs]` needs \
                 `rustc-args = [\"--cfg\", \"{NO_LINKING}\"]`"
            )
        };
        assert_eq!(problems_of(&packages("")), [of("gen"), of("user")]);
        let stated = format!(r#""--cfg","{NO_LINKING}""#);
        assert_eq!(problems_of(&packages(&stated)), [of("user")]);
    }
}
