//! A crate's modules as an arena, with their items and children.
//!
//! Modules and items under `#[cfg(test)]` are excluded. `#[path]` is not followed: nothing here uses it. Invariant: module
//! 0 is the crate's root; a child comes after its parent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use syn::punctuated::Punctuated;

/// One module.
#[derive(Default)]
pub(super) struct Module {
    /// Its parent module; its own index for the root.
    pub(super) parent: usize,
    /// Whether it is `pub`.
    pub(super) public: bool,
    /// Its child modules by name.
    pub(super) children: BTreeMap<String, usize>,
    /// Its items, except child modules.
    pub(super) items: Vec<syn::Item>,
}

/// Every module of one crate.
pub(super) struct ModuleTree {
    /// The arena.
    pub(super) modules: Vec<Module>,
}

impl ModuleTree {
    /// Parses the crate whose root file is `root`.
    pub(super) fn load(root: &Path) -> Result<Self> {
        let folder = root
            .parent()
            .context("a crate's root file is in a folder")?
            .to_path_buf();
        let mut tree = Self {
            modules: vec![Module {
                public: true,
                ..Module::default()
            }],
        };
        let mut pending = vec![(0, folder, parse(root)?)];
        while let Some((index, folder, items)) = pending.pop() {
            for item in items {
                if !is_test_only(attributes(&item)) {
                    tree.add(index, &folder, item, &mut pending)?;
                }
            }
        }
        Ok(tree)
    }

    /// The path of a module from the root, `a::b`; of the root, `crate`.
    pub(super) fn path(&self, module: usize) -> String {
        let mut names = Vec::new();
        let mut at = module;
        while at != 0 {
            let parent = self.modules[at].parent;
            let mut children = self.modules[parent].children.iter();
            names.extend(
                children
                    .find(|&(_, &child)| child == at)
                    .map(|(name, _)| name.as_str()),
            );
            at = parent;
        }
        names.reverse();
        match names.is_empty() {
            true => "crate".to_owned(),
            false => names.join("::"),
        }
    }

    fn add(
        &mut self,
        index: usize,
        folder: &Path,
        item: syn::Item,
        pending: &mut Vec<(usize, PathBuf, Vec<syn::Item>)>,
    ) -> Result<()> {
        let syn::Item::Mod(module) = item else {
            self.modules[index].items.push(item);
            return Ok(());
        };
        let name = module.ident.to_string();
        let child = self.modules.len();
        self.modules.push(Module {
            parent: index,
            public: is_public(&module.vis),
            ..Module::default()
        });
        self.modules[index].children.insert(name.clone(), child);
        let items = match module.content {
            Some((_, items)) => items,
            None => parse(&module_file(folder, &name)?)?,
        };
        pending.push((child, folder.join(&name), items));
        Ok(())
    }
}

/// Whether an item is visible wherever its module is.
pub(super) fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

/// Whether an item carries `#[cfg(test)]` or `#[cfg(all(test, …))]`.
pub(crate) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    let names_test = |meta: &syn::Meta| meta.path().is_ident("test");
    attributes.iter().any(|attribute| {
        let condition = attribute.parse_args::<syn::Meta>();
        attribute.path().is_ident("cfg")
            && condition.is_ok_and(|condition| match &condition {
                syn::Meta::List(list) if list.path.is_ident("all") => list
                    .parse_args_with(Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated)
                    .is_ok_and(|all| all.iter().any(names_test)),
                other => names_test(other),
            })
    })
}

fn parse(path: &Path) -> Result<Vec<syn::Item>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file =
        syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
    Ok(file.items)
}

fn module_file(folder: &Path, name: &str) -> Result<PathBuf> {
    let candidates = [
        folder.join(format!("{name}.rs")),
        folder.join(name).join("mod.rs"),
    ];
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => bail!("module `{name}` has no file in {}", folder.display()),
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::ForeignMod(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::TraitAlias(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
