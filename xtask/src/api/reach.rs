//! Which items of a set of crates are reachable from some of them, by name.
//!
//! Not a compiler's analysis: an item is reachable if reachable code contains its name, whichever item of that name is
//! meant, so an item with the name of a used one counts as used. A method counts if its type and its name are both
//! reachable; an `impl` of a trait, if its type is. Imports alone reach nothing, and neither does test code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::module_tree::{ModuleTree, is_test_only};
use super::resolve::{imports, item_name};

/// The names that some code mentions.
type Names = BTreeSet<String>;

/// Code of several crates, by what makes it reachable.
#[derive(Default)]
pub(crate) struct Reach {
    /// Names reachable from the start.
    roots: Names,
    /// The names mentioned by items, by their names.
    items: BTreeMap<String, Names>,
    /// The names mentioned by methods, by the names of their types and their own.
    methods: BTreeMap<(String, String), Names>,
    /// The names mentioned by trait implementations, by the types' names.
    traits: BTreeMap<String, Names>,
}

/// The reachable names.
pub(crate) struct Reached(Names);

impl Reached {
    /// Whether an item is reachable, by its path in the lists of public items: `text::print`, `Graph::new`.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let mut names = path.rsplit("::");
        let (last, before) = (names.next(), names.next());
        let is_known = |name: &str| self.0.contains(name);
        let of_type = before.filter(|name| name.starts_with(char::is_uppercase));
        last.is_some_and(is_known) && of_type.is_none_or(is_known)
    }
}

impl Reach {
    /// Adds a crate whose code has to be reached.
    pub(crate) fn add(&mut self, root: &Path) -> Result<()> {
        for module in ModuleTree::load(root)?.modules {
            // Another name for an item mentions that item.
            for scoped in imports(&module) {
                if let (Some(name), Some(last)) = (scoped.import.name, scoped.import.path.last())
                    && name != *last
                {
                    self.items.entry(name).or_default().insert(last.clone());
                }
            }
            for item in module.items {
                self.add_item(&item);
            }
        }
        Ok(())
    }

    /// Adds a crate all of whose code is reachable.
    pub(crate) fn add_root(&mut self, root: &Path) -> Result<()> {
        for module in ModuleTree::load(root)?.modules {
            for scoped in imports(&module) {
                self.roots.extend(scoped.import.path.last().cloned());
            }
            for item in &module.items {
                self.roots.extend(names_in(|names| names.visit_item(item)));
            }
        }
        Ok(())
    }

    fn add_item(&mut self, item: &syn::Item) {
        match item {
            syn::Item::Use(_) => {}
            syn::Item::Impl(block) => self.add_impl(block),
            other => {
                let mut names = names_in(|names| names.visit_item(other));
                match item_name(other).filter(|_| !matches!(other, syn::Item::Macro(_))) {
                    Some(name) => {
                        names.remove(&name);
                        self.items.entry(name).or_default().extend(names);
                    }
                    // A macro's use of it is unknown.
                    None => self.roots.extend(names),
                }
            }
        }
    }

    fn add_impl(&mut self, block: &syn::ItemImpl) {
        let ty = match block.self_ty.as_ref() {
            syn::Type::Path(ty) => ty.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        let Some(ty) = ty else {
            // A reference, a tuple or a trait object is treated as always reachable.
            let names = names_in(|names| names.visit_item_impl(block));
            self.roots.extend(names);
            return;
        };
        for item in &block.items {
            let names = names_in(|names| names.visit_impl_item(item));
            let own = match item {
                syn::ImplItem::Fn(item) if is_test_only(&item.attrs) => continue,
                syn::ImplItem::Fn(item) => Some(item.sig.ident.to_string()),
                syn::ImplItem::Const(item) => Some(item.ident.to_string()),
                _ => None,
            };
            match own.filter(|_| block.trait_.is_none()) {
                Some(own) => {
                    let key = (ty.clone(), own.clone());
                    let said = names.into_iter().filter(|name| *name != own);
                    self.methods.entry(key).or_default().extend(said);
                }
                None => self.traits.entry(ty.clone()).or_default().extend(names),
            }
        }
    }

    /// Everything reachable from the roots.
    pub(crate) fn reached(&self) -> Reached {
        let mut reached = Names::new();
        let mut pending: Vec<&String> = self.roots.iter().collect();
        let mut by_method: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
        let mut by_type: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
        for (ty, method) in self.methods.keys() {
            by_method.entry(method).or_default().push(ty);
            by_type.entry(ty).or_default().push(method);
        }
        while let Some(name) = pending.pop() {
            if !reached.insert(name.clone()) {
                continue;
            }
            pending.extend(self.items.get(name).into_iter().flatten());
            pending.extend(self.traits.get(name).into_iter().flatten());
            let as_method = by_method.get(name).into_iter().flatten();
            let as_type = by_type.get(name).into_iter().flatten();
            let pairs = as_method.map(|&ty| (ty, name));
            let pairs = pairs.chain(as_type.map(|&method| (name, method)));
            for (ty, method) in
                pairs.filter(|(ty, method)| reached.contains(*ty) && reached.contains(*method))
            {
                let key = (ty.clone(), method.clone());
                pending.extend(self.methods.get(&key).into_iter().flatten());
            }
        }
        Reached(reached)
    }
}

/// The names mentioned in the code that `visit` visits.
fn names_in(visit: impl FnOnce(&mut Collected)) -> Names {
    let mut collected = Collected::default();
    visit(&mut collected);
    collected.0
}

#[derive(Default)]
struct Collected(Names);

impl<'ast> Visit<'ast> for Collected {
    fn visit_ident(&mut self, ident: &'ast proc_macro2::Ident) {
        self.0.insert(ident.to_string());
    }

    fn visit_macro(&mut self, invoked: &'ast syn::Macro) {
        visit::visit_path(self, &invoked.path);
        self.add_tokens(invoked.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        // Documentation mentions names without using them.
        if let syn::Meta::List(list) = &attribute.meta {
            self.add_tokens(list.tokens.clone());
        }
    }
}

impl Collected {
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut pending = vec![tokens];
        while let Some(tokens) = pending.pop() {
            for token in tokens {
                match token {
                    TokenTree::Ident(ident) => {
                        self.0.insert(ident.to_string());
                    }
                    TokenTree::Group(group) => pending.push(group.stream()),
                    // `#[serde(with = "path")]`, and `"{name}"` in a format string.
                    TokenTree::Literal(literal) => {
                        let text = literal.to_string();
                        let words =
                            text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
                        self.0
                            .extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
                    }
                    TokenTree::Punct(_) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(library: &str, program: &str) -> Reached {
        let folder = tempfile::tempdir().unwrap();
        let (library_root, program_root) =
            (folder.path().join("lib.rs"), folder.path().join("main.rs"));
        std::fs::write(&library_root, library).unwrap();
        std::fs::write(&program_root, program).unwrap();
        let mut reach = Reach::default();
        reach.add(&library_root).unwrap();
        reach.add_root(&program_root).unwrap();
        reach.reached()
    }

    #[test]
    fn items_used_only_by_tests_or_unreached_code_are_unreached() {
        let library = "
            pub fn used() { helper() }
            pub fn helper() {}
            pub fn tested() {}
            pub fn of_the_tested() {}
            pub struct Kept; impl Kept { pub fn new() -> Kept { Kept } pub fn spare(&self) { of_the_tested() } }
            pub struct Spare; impl Spare { pub fn new() -> Spare { Spare } }
            #[cfg(test)] mod tests { fn test() { super::tested(); super::Spare::new(); } }";
        let reached = reached(library, "fn main() { used(); let kept = Kept::new(); }");
        for path in ["used", "helper", "Kept", "Kept::new"] {
            assert!(reached.contains(path), "{path}");
        }
        for path in [
            "tested",
            "of_the_tested",
            "Kept::spare",
            "Spare",
            "Spare::new",
        ] {
            assert!(!reached.contains(path), "{path}");
        }
    }

    #[test]
    fn reachability_follows_traits_macros_and_other_names() {
        let library = "
            pub struct Kept; impl Drop for Kept { fn drop(&mut self) { on_drop() } }
            pub fn on_drop() { println!(\"{}\", in_macro()) }
            pub fn in_macro() {}
            use on_loan as lent; pub fn on_loan() {}
            pub fn borrower() { lent() }";
        let reached = reached(library, "fn main() { Kept; borrower() }");
        for path in ["on_drop", "in_macro", "on_loan"] {
            assert!(reached.contains(path), "{path}");
        }
    }
}
