//! Crate edges: cargo's manifests against `xtask/layers.toml`, and the table in ARCHITECTURE.md against both.
//!
//! Normal and build dependencies count; development dependencies are free.

use std::fmt::Write;

use anyhow::{Context, Result};

use super::layers::{self, Layers, short};
use super::tree::{Problem, Tree};
use crate::workspace::{Metadata, Package};

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- begin: crate edges, written by `cargo xtask bless` -->\n";
const END: &str = "<!-- end: crate edges -->";

/// The crates that link LLVM, and the one crate that may use them: everything else is built, tested and deployed
/// without LLVM.
pub(super) const LLVM: [&str; 2] = ["inkwell", "llvm-sys"];
const LLVM_USER: &str = "codegen-llvm";

/// Checks every edge.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let layers = Layers::load(tree)?;
    let mut problems = edges(&layers, &tree.metadata);
    let page = tree.read(PAGE)?;
    if with_table(&page, &layers)? != page {
        problems.push(Problem::new(
            PAGE,
            "the table of crate edges is stale; run `cargo xtask bless`",
        ));
    }
    Ok(problems)
}

/// Rewrites the table in ARCHITECTURE.md; returns the paths it changed.
pub(crate) fn bless(tree: &Tree) -> Result<Vec<String>> {
    let page = tree.read(PAGE)?;
    let fresh = with_table(&page, &Layers::load(tree)?)?;
    if fresh == page {
        return Ok(Vec::new());
    }
    std::fs::write(tree.root.join(PAGE), fresh).with_context(|| format!("cannot write {PAGE}"))?;
    Ok(vec![PAGE.to_owned()])
}

fn edges(layers: &Layers, metadata: &Metadata) -> Vec<Problem> {
    let closure = layers.closure();
    let ours: Vec<&Package> = metadata.members().collect();
    let mut problems = Vec::new();
    for package in &ours {
        let name = short(&package.name);
        let Some(allowed) = closure.get(name) else {
            problems.push(Problem::new(
                layers::PATH,
                format!("package `{}` is not in the table", package.name),
            ));
            continue;
        };
        for dependency in package
            .dependencies
            .iter()
            .filter(|its| its.kind.as_deref() != Some("dev"))
        {
            if LLVM.contains(&dependency.name.as_str()) && name != LLVM_USER {
                let message = format!("`{name}` may not depend on `{}`", dependency.name);
                problems.push(Problem::new(layers::PATH, message));
            }
            let of_ours = ours.iter().any(|its| its.name == dependency.name);
            if of_ours && !allowed.contains(short(&dependency.name)) {
                let message = format!("`{name}` may not depend on `{}`", short(&dependency.name));
                problems.push(Problem::new(layers::PATH, message));
            }
        }
    }
    problems
}

fn with_table(page: &str, layers: &Layers) -> Result<String> {
    let missing = || format!("{PAGE} has no `{}` ... `{END}`", BEGIN.trim_end());
    let (before, rest) = page.split_once(BEGIN).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", table(layers)))
}

fn table(layers: &Layers) -> String {
    let width = layers
        .all
        .iter()
        .map(|layer| layer.name.len())
        .max()
        .unwrap_or_default();
    let mut table = String::from("```text\n");
    for layer in &layers.all {
        let may = match layer.may.as_slice() {
            [] => String::new(),
            [all] if all == "*" => "  -> all above".to_owned(),
            names => format!("  -> {}", names.join(", ")),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{:width$}  {}{may}", layer.name, layer.what);
    }
    table + "```\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    const LAYERS: &str = "[[layer]]\nname = 'ir'\nwhat = 'graph'
        [[layer]]\nname = 'onnx'\nwhat = 'import'\nmay = ['ir']
        [[layer]]\nname = 'kiln'\nwhat = 'facade'\nmay = ['*']";

    fn layers() -> Layers {
        toml::from_str(LAYERS).unwrap()
    }

    #[test]
    fn an_upward_edge_is_a_problem_unless_it_is_for_development() {
        let text = r#"{"workspace_members":["1","2","3"],"packages":[
            {"name":"kiln-ir","id":"1","dependencies":[
                {"name":"kiln-onnx","kind":null},{"name":"kiln","kind":"dev"},{"name":"serde","kind":null}]},
            {"name":"kiln-onnx","id":"2","dependencies":[{"name":"kiln-ir","kind":"build"},{"name":"inkwell","kind":null}]},
            {"name":"kiln-new","id":"3"}]}"#;
        let metadata: Metadata = serde_json::from_str(text).unwrap();
        assert_eq!(
            said(&edges(&layers(), &metadata)),
            [
                "xtask/layers.toml: `ir` may not depend on `onnx`",
                "xtask/layers.toml: `onnx` may not depend on `inkwell`",
                "xtask/layers.toml: package `kiln-new` is not in the table",
            ]
        );
    }

    #[test]
    fn the_page_shows_the_table() {
        let page = format!("# A\n\n{BEGIN}old\n{END}\n\nmore\n");
        let (_folder, tree) = Tree::of(&[(layers::PATH, LAYERS), (PAGE, &page)]);
        assert_eq!(check(&tree).unwrap().len(), 1);
        assert_eq!(bless(&tree).unwrap(), [PAGE]);
        assert!(check(&tree).unwrap().is_empty());
        assert!(bless(&tree).unwrap().is_empty());
        let shown = tree.read(PAGE).unwrap();
        assert!(
            shown.contains("onnx  import  -> ir\nkiln  facade  -> all above\n"),
            "{shown}"
        );
        assert!(shown.ends_with("\n\nmore\n"));
    }
}
