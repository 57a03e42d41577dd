//! The table of limits: each public field of `kiln::Limits`, down through the structs it is composed of, has a row that
//! names a test.
//!
//! The page is `docs/book/src/reference/limits.md`; its first column holds the path of the field, its last the tests. A
//! type named `…Limits` is a struct of limits, found by the crate in its path; any other is a limit.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

use super::faults::functions;
use super::table::{quoted, rows};
use super::tree::{Problem, Tree};

const PAGE: &str = "docs/book/src/reference/limits.md";
const FACADE: &str = "crates/kiln/src/limits.rs";

/// Checks the table.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let functions = functions(tree)?;
    let mut missing: BTreeSet<String> = fields(tree)?.into_iter().collect();
    let known = missing.clone();
    let page = tree.read(PAGE)?;
    let mut problems = Vec::new();
    for row in rows(&page) {
        let (Some(first), Some(tests)) = (row.cells.first(), row.cells.last()) else {
            continue;
        };
        let mut say = |message: String| problems.push(Problem::at(PAGE, row.line, message));
        let field = first.trim_matches('`');
        if !known.contains(field) {
            say(format!("`kiln::Limits` has no field `{field}`"));
        } else if !missing.remove(field) {
            say(format!("`{field}` has two rows"));
        }
        let names: Vec<&str> = quoted(tests).collect();
        if names.is_empty() {
            say(format!("`{field}` names no test"));
        }
        for name in names.into_iter().filter(|name| !functions.contains(*name)) {
            say(format!("`{field}`: no test is called `{name}`"));
        }
    }
    let without = missing.into_iter();
    problems.extend(without.map(|field| Problem::new(PAGE, format!("`{field}` has no row"))));
    Ok(problems)
}

/// The paths of all limits, as a user writes them.
fn fields(tree: &Tree) -> Result<Vec<String>> {
    let facade = public_fields(&tree.read(FACADE)?, "Limits")
        .with_context(|| format!("{FACADE} has no struct `Limits`"))?;
    let mut found = Vec::new();
    let mut waiting: Vec<(String, syn::Path)> = facade;
    // A struct of limits has fewer than this; more means that it contains itself.
    let mut steps = 0;
    while let Some((field, path)) = waiting.pop() {
        steps += 1;
        if steps > 10_000 {
            bail!("the structs of limits contain each other");
        }
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        let (Some(root), Some(last)) = (names.first(), names.last()) else {
            continue;
        };
        if !last.ends_with("Limits") {
            found.push(field);
            continue;
        }
        let folder = match root.strip_prefix("kiln_") {
            Some(name) => format!("crates/{}/src/", name.replace('_', "-")),
            None => bail!("{FACADE}: write the type of `{field}` with its crate, found `{last}`"),
        };
        let inner = declared(tree, &folder, last)?
            .with_context(|| format!("{folder} has no struct `{last}`, the type of `{field}`"))?;
        waiting.extend(inner.into_iter().map(|(name, path)| {
            // A plain name is in the same crate.
            let path = match path.segments.len() {
                1 => qualified(root, path),
                _ => path,
            };
            (format!("{field}.{name}"), path)
        }));
    }
    Ok(found)
}

fn qualified(root: &str, path: syn::Path) -> syn::Path {
    let mut whole = syn::Path::from(syn::Ident::new(root, proc_macro2::Span::call_site()));
    whole.segments.extend(path.segments);
    whole
}

/// The public fields of the struct `name` of the crate in `folder`.
fn declared(tree: &Tree, folder: &str, name: &str) -> Result<Option<Vec<(String, syn::Path)>>> {
    let head = format!("pub struct {name} ");
    for path in tree.rust_files().filter(|path| path.starts_with(folder)) {
        let text = tree.read(path)?;
        if text.contains(&head)
            && let Some(fields) = public_fields(&text, name)
        {
            return Ok(Some(fields));
        }
    }
    Ok(None)
}

fn public_fields(text: &str, name: &str) -> Option<Vec<(String, syn::Path)>> {
    let file = syn::parse_file(text).ok()?;
    let found = file.items.into_iter().find_map(|item| match item {
        syn::Item::Struct(item) if item.ident == name => Some(item),
        _ => None,
    })?;
    let fields: BTreeMap<String, syn::Path> = found
        .fields
        .into_iter()
        .filter(|field| matches!(field.vis, syn::Visibility::Public(_)))
        .filter_map(|field| match field.ty {
            syn::Type::Path(ty) => Some((field.ident?.to_string(), ty.path)),
            _ => None,
        })
        .collect();
    Some(fields.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn every_field_has_one_row_that_names_a_test() {
        let page = "| field | tests |\n|---|---|\n| `run.bytes` | `holds` |\n| `run.bytes` | `holds` |\n\
                    | `run.steps` | `gone` |\n| `depth` | |\n| `more` | `holds` |\n";
        let facade = "pub struct Limits { pub run: kiln_a_b::RunLimits, pub depth: u32, pub all: u64, own: u8 }";
        let (_folder, tree) = Tree::of(&[
            (PAGE, page),
            (FACADE, facade),
            (
                "crates/a-b/src/limits.rs",
                "pub struct RunLimits { pub bytes: u64, pub steps: u64, pub in_it: InnerLimits }",
            ),
            (
                "crates/a-b/src/inner.rs",
                "pub struct InnerLimits { pub deep: u64 }",
            ),
            ("crates/a-b/tests/t.rs", "fn holds() {}"),
        ]);
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                format!("{PAGE}:4: `run.bytes` has two rows"),
                format!("{PAGE}:5: `run.steps`: no test is called `gone`"),
                format!("{PAGE}:6: `depth` names no test"),
                format!("{PAGE}:7: `kiln::Limits` has no field `more`"),
                format!("{PAGE}: `all` has no row"),
                format!("{PAGE}: `run.in_it.deep` has no row"),
            ]
        );
    }
}
