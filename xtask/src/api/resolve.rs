//! Following names through modules and imports.
//!
//! Not a compiler's resolver: it supports what this project's code uses (`crate`, `self`, `super`, child modules, imports,
//! globs of modules) and treats every other first name as another crate. Invariant: terminates on cyclic imports (each step
//! of a chain costs fuel).

use super::imports::{Import, flatten};
use super::module_tree::{Module, ModuleTree, is_public};

/// The maximum number of imports that one name may go through.
const FUEL: usize = 32;

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// A module of this crate.
    Module(usize),
    /// An item: its module and its index in it.
    Item(usize, usize),
    /// An item of another crate, by its path.
    Foreign(String),
}

/// An import and whether it is `pub`.
pub(super) struct Scoped {
    /// The import.
    pub(super) import: Import,
    /// Whether it re-exports.
    pub(super) public: bool,
}

/// Every import of a module.
pub(super) fn imports(module: &Module) -> Vec<Scoped> {
    let uses = module.items.iter().filter_map(|item| match item {
        syn::Item::Use(item) => Some(item),
        _ => None,
    });
    uses.flat_map(|item| {
        let public = is_public(&item.vis);
        flatten(&item.tree)
            .into_iter()
            .map(move |import| Scoped { import, public })
    })
    .collect()
}

/// The referents of `path`, written in module `from`; several where namespaces share the name.
pub(super) fn resolve(tree: &ModuleTree, from: usize, path: &[String]) -> Vec<Target> {
    follow(tree, from, path, FUEL)
}

/// The name of an item, if it has one.
pub(super) fn item_name(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::TraitAlias(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

fn follow(tree: &ModuleTree, from: usize, path: &[String], fuel: usize) -> Vec<Target> {
    let Some(fuel) = fuel.checked_sub(1) else {
        return Vec::new();
    };
    let Some((first, rest)) = path.split_first() else {
        return vec![Target::Module(from)];
    };
    let starts = match first.as_str() {
        "crate" => vec![Target::Module(0)],
        "self" => vec![Target::Module(from)],
        "super" => vec![Target::Module(tree.modules[from].parent)],
        _ => named(tree, from, first, fuel),
    };
    if starts.is_empty() {
        let leads_nowhere = declares(&tree.modules[from], first);
        return if leads_nowhere {
            Vec::new()
        } else {
            vec![Target::Foreign(path.join("::"))]
        };
    }
    let mut found = Vec::new();
    for start in starts {
        match start {
            Target::Module(module) if !rest.is_empty() => {
                found.extend(inside(tree, module, rest, fuel))
            }
            Target::Foreign(crate_path) if !rest.is_empty() => {
                found.push(Target::Foreign(format!(
                    "{crate_path}::{}",
                    rest.join("::")
                )));
            }
            // A path through a type (`Enum::Variant`) refers to the type; a path through a function does not resolve.
            Target::Item(module, item) if !rest.is_empty() && !is_type(tree, module, item) => {}
            other => found.push(other),
        }
    }
    found.sort();
    found.dedup();
    found
}

fn is_type(tree: &ModuleTree, module: usize, item: usize) -> bool {
    let item = &tree.modules[module].items[item];
    matches!(
        item,
        syn::Item::Enum(_)
            | syn::Item::Struct(_)
            | syn::Item::Trait(_)
            | syn::Item::Type(_)
            | syn::Item::Union(_)
    )
}

/// `path` looked up inside a module of this crate: a missing name cannot belong to another crate.
fn inside(tree: &ModuleTree, module: usize, path: &[String], fuel: usize) -> Vec<Target> {
    let relative = path
        .first()
        .is_some_and(|first| first == "super" || first == "self");
    let known = path
        .first()
        .is_some_and(|first| !named(tree, module, first, fuel).is_empty());
    if relative || known {
        follow(tree, module, path, fuel)
    } else {
        Vec::new()
    }
}

/// Whether a module itself defines `name`, so that it cannot be another crate.
fn declares(module: &Module, name: &str) -> bool {
    let names_it = |scoped: &Scoped| {
        scoped.import.name.as_deref() == Some(name) && !names_a_crate(&scoped.import, name)
    };
    module.children.contains_key(name)
        || module
            .items
            .iter()
            .any(|item| item_name(item).is_some_and(|its| its == name))
        || imports(module).iter().any(names_it)
}

/// `use name;`: this can only be a crate.
fn names_a_crate(import: &Import, name: &str) -> bool {
    matches!(import.path.as_slice(), [only] if only == name)
}

/// Everything named `name` in a module.
fn named(tree: &ModuleTree, module_index: usize, name: &str, fuel: usize) -> Vec<Target> {
    let Some(fuel) = fuel.checked_sub(1) else {
        return Vec::new();
    };
    let module = &tree.modules[module_index];
    let mut found: Vec<Target> = module
        .children
        .get(name)
        .map(|&child| Target::Module(child))
        .into_iter()
        .collect();
    for (index, item) in module.items.iter().enumerate() {
        if item_name(item).is_some_and(|its| its == name) {
            found.push(Target::Item(module_index, index));
        }
    }
    for Scoped { import, .. } in imports(module) {
        match &import.name {
            // Following it would not terminate.
            Some(its) if its == name && names_a_crate(&import, name) => {
                if found.is_empty() {
                    found.push(Target::Foreign(name.to_owned()));
                }
            }
            Some(its) if its == name => {
                found.extend(follow(tree, module_index, &import.path, fuel))
            }
            None => found.extend(through_glob(tree, module_index, &import.path, name, fuel)),
            Some(_) => {}
        }
    }
    found
}

fn through_glob(
    tree: &ModuleTree,
    from: usize,
    path: &[String],
    name: &str,
    fuel: usize,
) -> Vec<Target> {
    let Some(first) = path.first() else {
        return Vec::new();
    };
    let local = matches!(first.as_str(), "crate" | "self" | "super")
        || tree.modules[from].children.contains_key(first);
    if !local {
        return Vec::new();
    }
    let modules = follow(tree, from, path, fuel)
        .into_iter()
        .filter_map(|target| match target {
            Target::Module(module) if module != from => Some(module),
            _ => None,
        });
    modules
        .flat_map(|module| named(tree, module, name, fuel))
        .collect()
}
