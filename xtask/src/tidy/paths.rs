//! The paths that a source file uses outside its tests: in expressions, types and imports, as `["std", "fs", "File"]`.
//!
//! It reads names, not meaning: a renamed import or a macro's expansion is not seen.

use anyhow::{Context, Result};
use syn::visit::{self, Visit};

use super::tree::Tree;
use crate::api::{flatten, is_test_only};

/// The results of `pick` for the paths in a file, in order, without duplicates.
pub(super) fn picked(
    tree: &Tree,
    path: &str,
    pick: impl Fn(&[String]) -> Option<&'static str>,
) -> Result<Vec<&'static str>> {
    let file =
        syn::parse_file(&tree.read(path)?).with_context(|| format!("cannot parse {path}"))?;
    let mut paths = Paths {
        pick,
        picked: Vec::new(),
    };
    paths.visit_file(&file);
    paths.picked.sort_unstable();
    paths.picked.dedup();
    Ok(paths.picked)
}

/// Whether a file contains only tests.
pub(super) fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

struct Paths<P> {
    pick: P,
    picked: Vec<&'static str>,
}

impl<P: Fn(&[String]) -> Option<&'static str>> Paths<P> {
    fn add(&mut self, path: &[String]) {
        self.picked.extend((self.pick)(path));
    }
}

impl<'ast, P: Fn(&[String]) -> Option<&'static str>> Visit<'ast> for Paths<P> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        self.add(&words);
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for import in flatten(&item.tree) {
            self.add(&import.path);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test_only(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_test_only(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }
}
