//! Modules of a crate that need each other in a circle.
//!
//! A module needs the modules that define what its code names, through any re-exports: a re-export itself needs nothing, so a
//! `mod.rs` that is a table of contents is in no circle. Nor does a submodule's use of the modules around it count: a folder is
//! one concept. Code for tests does not count, nor what stands in the arguments of a macro.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use syn::visit::{self, Visit};

use super::imports::flatten;
use super::module_tree::{ModuleTree, is_test_only};
use super::resolve::{Target, resolve};

/// The dependency cycles of more than two modules of the crate whose root file is `root`: the modules of each, by their
/// paths.
pub(crate) fn circles(root: &Path) -> Result<Vec<Vec<String>>> {
    let tree = ModuleTree::load(root)?;
    let needs: Vec<BTreeSet<usize>> = (0..tree.modules.len())
        .map(|module| needs(&tree, module))
        .collect();
    let reach: Vec<BTreeSet<usize>> = (0..needs.len()).map(|from| reached(&needs, from)).collect();
    let mut found = BTreeSet::new();
    for (module, reached) in reach.iter().enumerate() {
        let mutual = |&other: &usize| reach[other].contains(&module);
        let circle: BTreeSet<usize> = reached.iter().copied().filter(mutual).collect();
        if circle.len() > 2 {
            found.insert(circle);
        }
    }
    let names = |circle: BTreeSet<usize>| circle.into_iter().map(|module| tree.path(module));
    Ok(found
        .into_iter()
        .map(|circle| names(circle).collect())
        .collect())
}

/// The other modules that a module's code names.
fn needs(tree: &ModuleTree, module: usize) -> BTreeSet<usize> {
    let mut named = Named {
        tree,
        module,
        found: BTreeSet::new(),
    };
    for item in &tree.modules[module].items {
        named.visit_item(item);
    }
    let mut around = module;
    named.found.remove(&around);
    while around != 0 {
        around = tree.modules[around].parent;
        named.found.remove(&around);
    }
    named.found
}

/// The modules that are reachable from a module in one or more steps.
fn reached(needs: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut pending: Vec<usize> = needs[from].iter().copied().collect();
    while let Some(module) = pending.pop() {
        if reached.insert(module) {
            pending.extend(&needs[module]);
        }
    }
    reached
}

struct Named<'a> {
    tree: &'a ModuleTree,
    module: usize,
    found: BTreeSet<usize>,
}

impl Named<'_> {
    fn add(&mut self, path: &[String]) {
        for target in resolve(self.tree, self.module, path) {
            match target {
                Target::Module(module) | Target::Item(module, _) => {
                    self.found.insert(module);
                }
                Target::Foreign(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Named<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if matches!(item.vis, syn::Visibility::Inherited) {
            for import in flatten(&item.tree) {
                self.add(&import.path);
            }
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test_only(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            let names: Vec<String> = path
                .segments
                .iter()
                .map(|one| one.ident.to_string())
                .collect();
            self.add(&names);
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        circles(&folder.path().join("lib.rs")).unwrap()
    }

    #[test]
    fn three_modules_in_a_circle_are_found_through_re_exports() {
        let files = [
            (
                "lib.rs",
                "mod a; mod b; mod c; mod d; pub use a::A; pub use b::B;",
            ),
            ("a.rs", "use crate::B; pub struct A(B);"),
            ("b.rs", "pub struct B; fn f() { super::c::c() }"),
            ("c.rs", "use crate::A; pub fn c() {}"),
            (
                "d.rs",
                "use crate::{A, B}; #[cfg(test)] mod tests { use crate::A; }",
            ),
        ];
        assert_eq!(found(&files), [["a", "b", "c"]]);
    }

    #[test]
    fn pairs_and_tests_are_none() {
        let files = [
            (
                "lib.rs",
                "mod a; pub mod b; pub use b::B; #[cfg(test)] mod tests;",
            ),
            ("tests.rs", "use crate::a::A;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            (
                "b/mod.rs",
                "mod inner; pub use inner::I; pub struct B; fn f() { crate::a::A; }",
            ),
            ("b/inner.rs", "use super::B; pub struct I(B);"),
        ];
        assert_eq!(found(&files), [[""; 0]; 0]);
    }
}
