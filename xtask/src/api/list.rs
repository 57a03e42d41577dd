//! The list itself: one line per item that can be named from outside, sorted.
//!
//! Types bring their public fields, variants and inherent methods; traits bring their items.
//! A line is a kind and a path without the crate's name: `fn DimTable::add`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::module_tree::{ModuleTree, is_public, is_test_only};
use super::resolve::{Scoped, Target, imports, item_name, resolve};

/// The maximum nesting of modules that the walk follows.
const DEPTH_LIMIT: usize = 16;

/// Lists the public items of the crate whose root file is `root`.
pub(crate) fn public_items(root: &Path) -> Result<Vec<String>> {
    let tree = ModuleTree::load(root)?;
    let methods = inherent_items(&tree);
    let mut lines = BTreeSet::new();
    let mut pending = vec![(0, String::new(), 0)];
    while let Some((index, prefix, depth)) = pending.pop() {
        for (name, target) in exports(&tree, index) {
            let path = format!("{prefix}{name}");
            match target {
                Some(Target::Module(child)) => {
                    lines.insert(format!("mod {path}"));
                    if depth < DEPTH_LIMIT {
                        pending.push((child, format!("{path}::"), depth + 1));
                    }
                }
                Some(Target::Item(module, item)) => {
                    describe(&tree.modules[module].items[item], &path, &mut lines);
                    let own = methods.get(&(module, item)).into_iter().flatten();
                    lines.extend(own.map(|(kind, name)| format!("{kind} {path}::{name}")));
                }
                Some(Target::Foreign(from)) => {
                    lines.insert(format!("use {path} = {from}"));
                }
                None => {
                    lines.insert(format!("item {path}"));
                }
            }
        }
    }
    lines.extend(exported_macros(&tree));
    Ok(lines.into_iter().collect())
}

/// The contents of module `index`: names and their referents (`None`: made by a macro).
fn exports(tree: &ModuleTree, index: usize) -> Vec<(String, Option<Target>)> {
    let module = &tree.modules[index];
    let mut found = Vec::new();
    for (name, &child) in &module.children {
        if tree.modules[child].public {
            found.push((name.clone(), Some(Target::Module(child))));
        }
    }
    for (place, item) in module.items.iter().enumerate() {
        if let (Some(name), true) = (item_name(item), visibility(item).is_some_and(is_public)) {
            found.push((name, Some(Target::Item(index, place))));
        }
    }
    for Scoped { import, .. } in imports(module).into_iter().filter(|scoped| scoped.public) {
        let Some(name) = import.name else {
            found.push((format!("{}::*", import.path.join("::")), None));
            continue;
        };
        let targets = resolve(tree, index, &import.path);
        if targets.is_empty() {
            found.push((name.clone(), None));
        }
        found.extend(
            targets
                .into_iter()
                .map(|target| (name.clone(), Some(target))),
        );
    }
    found
}

fn visibility(item: &syn::Item) -> Option<&syn::Visibility> {
    match item {
        syn::Item::Const(item) => Some(&item.vis),
        syn::Item::Enum(item) => Some(&item.vis),
        syn::Item::Fn(item) => Some(&item.vis),
        syn::Item::Static(item) => Some(&item.vis),
        syn::Item::Struct(item) => Some(&item.vis),
        syn::Item::Trait(item) => Some(&item.vis),
        syn::Item::TraitAlias(item) => Some(&item.vis),
        syn::Item::Type(item) => Some(&item.vis),
        syn::Item::Union(item) => Some(&item.vis),
        _ => None,
    }
}

fn describe(item: &syn::Item, path: &str, lines: &mut BTreeSet<String>) {
    let kind = match item {
        syn::Item::Const(_) => "const",
        syn::Item::Enum(item) => {
            lines.extend(
                item.variants
                    .iter()
                    .map(|variant| format!("variant {path}::{}", variant.ident)),
            );
            "enum"
        }
        syn::Item::Fn(_) => "fn",
        syn::Item::Static(_) => "static",
        syn::Item::Struct(item) => {
            let public = item.fields.iter().filter(|field| is_public(&field.vis));
            lines.extend(
                public.filter_map(|field| Some(format!("field {path}::{}", field.ident.as_ref()?))),
            );
            "struct"
        }
        syn::Item::Trait(item) => {
            lines.extend(
                item.items
                    .iter()
                    .filter_map(trait_item)
                    .map(|(kind, name)| format!("{kind} {path}::{name}")),
            );
            "trait"
        }
        syn::Item::TraitAlias(_) => "trait",
        syn::Item::Type(_) => "type",
        syn::Item::Union(_) => "union",
        syn::Item::Macro(_) => "macro",
        _ => "item",
    };
    lines.insert(format!("{kind} {path}"));
}

fn trait_item(item: &syn::TraitItem) -> Option<(&'static str, String)> {
    match item {
        syn::TraitItem::Const(item) => Some(("const", item.ident.to_string())),
        syn::TraitItem::Fn(item) => Some(("fn", item.sig.ident.to_string())),
        syn::TraitItem::Type(item) => Some(("type", item.ident.to_string())),
        _ => None,
    }
}

/// The public functions and constants of every inherent `impl`, by the type to which they belong.
fn inherent_items(tree: &ModuleTree) -> BTreeMap<(usize, usize), Vec<(&'static str, String)>> {
    let mut found: BTreeMap<(usize, usize), Vec<_>> = BTreeMap::new();
    for (index, module) in tree.modules.iter().enumerate() {
        for item in &module.items {
            let syn::Item::Impl(block) = item else {
                continue;
            };
            let (None, syn::Type::Path(ty)) = (&block.trait_, block.self_ty.as_ref()) else {
                continue;
            };
            let path: Vec<String> = ty
                .path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect();
            for target in resolve(tree, index, &path) {
                if let Target::Item(module, place) = target {
                    found
                        .entry((module, place))
                        .or_default()
                        .extend(public_parts(block));
                }
            }
        }
    }
    found
}

fn public_parts(block: &syn::ItemImpl) -> Vec<(&'static str, String)> {
    let parts = block.items.iter().filter_map(|item| match item {
        syn::ImplItem::Fn(item) if is_public(&item.vis) && !is_test_only(&item.attrs) => {
            Some(("fn", item.sig.ident.to_string()))
        }
        syn::ImplItem::Const(item) if is_public(&item.vis) => {
            Some(("const", item.ident.to_string()))
        }
        _ => None,
    });
    parts.collect()
}

/// `#[macro_export]` puts a macro at the crate's root, wherever it is.
fn exported_macros(tree: &ModuleTree) -> Vec<String> {
    let items = tree.modules.iter().flat_map(|module| &module.items);
    items
        .filter_map(|item| match item {
            syn::Item::Macro(item)
                if item
                    .attrs
                    .iter()
                    .any(|its| its.path().is_ident("macro_export")) =>
            {
                Some(format!("macro {}", item.ident.as_ref()?))
            }
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        public_items(&folder.path().join("lib.rs")).unwrap()
    }

    #[test]
    fn only_reachable_items_are_listed() {
        let lib = "mod table; pub mod text; pub use table::{DimTable, Dim as Size}; fn private() {} pub const N: u8 = 1;";
        let table = "pub struct DimTable { pub n_dims: usize, hidden: u8 } pub struct Unreachable;
            pub enum Dim { Known, Named { name: u8 } }
            impl DimTable { pub fn add(&self) {} pub(crate) fn peek(&self) {} pub const MAX: u8 = 1; }
            #[cfg(test)] mod tests { pub struct InTests; }";
        let text = "use crate::table::DimTable; impl DimTable { pub fn print(&self) {} }
            pub trait Reader { type Out; fn read(&self); }";
        let expected = [
            "const DimTable::MAX",
            "const N",
            "enum Size",
            "field DimTable::n_dims",
            "fn DimTable::add",
            "fn DimTable::print",
            "fn text::Reader::read",
            "mod text",
            "struct DimTable",
            "trait text::Reader",
            "type text::Reader::Out",
            "variant Size::Known",
            "variant Size::Named",
        ];
        assert_eq!(
            listed(&[("lib.rs", lib), ("table.rs", table), ("text/mod.rs", text)]),
            expected
        );
    }

    #[test]
    fn re_exports_of_re_exports_and_of_other_crates_are_followed() {
        let lib =
            "mod a; pub use a::{Leaf, Made}; pub use kiln_ir as ir; pub use kiln_tensor::Tensor;
            #[macro_export] macro_rules! shout { () => {} }";
        let a = "mod b; pub use b::Leaf; pub use self::b::c; make! { Made }";
        let b = "pub mod c { pub struct Deep; } pub struct Leaf; use super::*; use serde::*;";
        let expected = [
            "item Made",
            "macro shout",
            "struct Leaf",
            "use Tensor = kiln_tensor::Tensor",
            "use ir = kiln_ir",
        ];
        assert_eq!(
            listed(&[("lib.rs", lib), ("a.rs", a), ("a/b.rs", b)]),
            expected
        );
    }

    #[test]
    fn a_function_may_share_the_name_of_its_module() {
        let lib = "mod verify; pub use verify::{LIMIT, verify};";
        let items = listed(&[
            ("lib.rs", lib),
            ("verify.rs", "pub const LIMIT: u8 = 1; pub fn verify() {}"),
        ]);
        assert_eq!(items, ["const LIMIT", "fn verify"]);
    }

    #[test]
    fn cyclic_imports_terminate() {
        let lib = "pub mod a; pub mod b;";
        let items = listed(&[
            ("lib.rs", lib),
            ("a.rs", "pub use crate::b::X;"),
            ("b.rs", "pub use crate::a::X;"),
        ]);
        assert_eq!(items, ["item a::X", "item b::X", "mod a", "mod b"]);
    }
}
