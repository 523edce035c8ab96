//! Modules of a crate import each other in one direction: no file needs, through whatever others, itself. And the rooms of the native
//! crate, as docs/design.md draws them, import only rooms below them.
//!
//! An import counts for the file that defines the name, not for one that hands it on. Tests are left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::visit::{self, Visit};

type ModulePath = Vec<String>;

/// The modules of a crate, by path.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

#[derive(Default)]
struct Module {
    file: PathBuf,
    defined: BTreeSet<String>,
    /// The paths that a `use` imports, by the name that each has here.
    imported: BTreeMap<String, Vec<String>>,
    /// Paths that the code names, or imports for itself.
    named: Vec<Vec<String>>,
}

impl Crate {
    fn read(root: &Path) -> Self {
        let mut all = Self::default();
        all.read_file(&root.join("lib.rs"), root, Vec::new());
        all
    }

    fn read_file(&mut self, file: &Path, children: &Path, path: ModulePath) {
        let text = fs::read_to_string(file).expect("a module has a file");
        let parsed = syn::parse_file(&text).expect("it compiles");
        self.read_items(&parsed.items, file, children, path);
    }

    fn read_items(&mut self, items: &[syn::Item], file: &Path, children: &Path, path: ModulePath) {
        let mut module = Module { file: file.to_path_buf(), ..Module::default() };
        let chosen: Vec<syn::Item> = items.iter().flat_map(items_of_ladder).collect();
        for item in items.iter().chain(&chosen).filter(|item| !is_test(attributes(item))) {
            match item {
                syn::Item::Mod(child) => {
                    let name = child.ident.to_string();
                    let inner = children.join(&name);
                    let below = [&path[..], std::slice::from_ref(&name)].concat();
                    let files = [inner.with_extension("rs"), inner.join("mod.rs")];
                    match (&child.content, files.iter().find(|file| file.is_file())) {
                        (Some((_, items)), _) => self.read_items(items, file, &inner, below),
                        (None, Some(found)) => self.read_file(found, &inner, below),
                        (None, None) => panic!("{} has no file", below.join("::")),
                    }
                    continue;
                }
                syn::Item::Use(import) => {
                    let mut imported = BTreeMap::new();
                    flatten(&import.tree, &mut Vec::new(), &mut imported);
                    // A re-export is no dependency of this module's code.
                    if matches!(import.vis, syn::Visibility::Inherited) {
                        module.named.extend(imported.values().cloned());
                    }
                    // Of a name that each platform imports from elsewhere, the first counts.
                    for (name, path) in imported {
                        module.imported.entry(name).or_insert(path);
                    }
                }
                syn::Item::Macro(makes) => {
                    module.defined.extend(makes.ident.as_ref().map(ToString::to_string));
                }
                _ => module.defined.extend(name_of(item)),
            }
            visit::visit_item(&mut module, item);
        }
        self.modules.insert(path, module);
    }

    /// Returns the file that defines what a path names in a module, if it is in this crate.
    fn definer(&self, from: &[String], path: &[String], depth: u32) -> Option<&Path> {
        let mut at = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            "super" => from.split_last()?.1.to_vec(),
            first => match self.modules.get(from)?.imported.get(first) {
                // A name that was imported, or a module below this one.
                Some(import) if import.first().is_some_and(|other| other != first) && depth < 8 => {
                    let whole = [&import[..], &path[1..]].concat();
                    return self.definer(from, &whole, depth + 1);
                }
                _ => [from, std::slice::from_ref(&path[0])].concat(),
            },
        };
        let mut rest = if matches!(path[0].as_str(), "crate" | "self" | "super") { &path[1..] } else { &[] };
        if rest.is_empty() && path.len() > 1 && at.last() == Some(&path[0]) {
            rest = &path[1..];
        }
        while let Some((next, after)) = rest.split_first() {
            match next.as_str() {
                "super" => drop(at.pop()?),
                _ => {
                    let below = [&at[..], std::slice::from_ref(next)].concat();
                    if !self.modules.contains_key(&below) {
                        let module = self.modules.get(&at)?;
                        let import =
                            module.imported.get(next).filter(|_| !module.defined.contains(next) && depth < 8);
                        return match import {
                            Some(import) => self.definer(&at, import, depth + 1),
                            None => Some(&module.file),
                        };
                    }
                    at = below;
                }
            }
            rest = after;
        }
        self.modules.get(&at).map(|module| &*module.file)
    }

    /// Returns which files each file imports.
    fn imports(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let mut all: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
        for (path, module) in &self.modules {
            for named in &module.named {
                let definer = self.definer(path, named, 0).filter(|file| *file != module.file);
                all.entry(&module.file).or_default().extend(definer);
            }
        }
        all
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    // A visibility such as `pub(in path)` is no import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            self.named.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

/// The items of a `cfg_if!`, of all platforms.
struct Ladder(Vec<syn::Item>);

impl syn::parse::Parse for Ladder {
    fn parse(input: syn::parse::ParseStream<'_>) -> syn::Result<Self> {
        let mut items = Vec::new();
        while !input.is_empty() {
            input.parse::<Option<syn::Token![else]>>()?;
            if input.parse::<Option<syn::Token![if]>>()?.is_some() {
                input.call(syn::Attribute::parse_outer)?;
            }
            let branch;
            syn::braced!(branch in input);
            while !branch.is_empty() {
                items.push(branch.parse()?);
            }
        }
        Ok(Self(items))
    }
}

fn items_of_ladder(item: &syn::Item) -> Vec<syn::Item> {
    match item {
        syn::Item::Macro(item) if item.mac.path.is_ident("cfg_if") => {
            item.mac.parse_body::<Ladder>().expect("it is a ladder").0
        }
        _ => Vec::new(),
    }
}

fn flatten(tree: &syn::UseTree, before: &mut Vec<String>, into: &mut BTreeMap<String, Vec<String>>) {
    let whole = |before: &[String], name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, into);
            before.pop();
        }
        syn::UseTree::Name(name) if name.ident == "self" => {
            into.extend(before.last().map(|name| (name.clone(), before.clone())));
        }
        syn::UseTree::Name(name) => drop(into.insert(name.ident.to_string(), whole(before, &name.ident))),
        syn::UseTree::Rename(name) => drop(into.insert(name.rename.to_string(), whole(before, &name.ident))),
        syn::UseTree::Glob(_) => drop(into.insert(format!("{before:?}::*"), before.clone())),
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| flatten(item, before, into)),
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("cfg")
            && list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
    })
}

fn name_of(item: &syn::Item) -> Option<String> {
    Some(match item {
        syn::Item::Const(item) => item.ident.to_string(),
        syn::Item::Enum(item) => item.ident.to_string(),
        syn::Item::Fn(item) => item.sig.ident.to_string(),
        syn::Item::Static(item) => item.ident.to_string(),
        syn::Item::Struct(item) => item.ident.to_string(),
        syn::Item::Trait(item) => item.ident.to_string(),
        syn::Item::Type(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// Returns the files that import themselves through others, a list for each circle.
fn circles<'a>(imports: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> Vec<Vec<&'a Path>> {
    let reached = |from: &'a Path| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            next.extend(imports.get(file).into_iter().flatten().filter(|file| seen.insert(**file)));
        }
        seen
    };
    let all: BTreeMap<_, _> = imports.keys().map(|file| (*file, reached(file))).collect();
    let circle_of = |file: &'a Path| -> Vec<&'a Path> {
        all[file]
            .iter()
            .filter(|other| all.get(*other).is_some_and(|seen| seen.contains(file)))
            .copied()
            .collect()
    };
    let found: BTreeSet<Vec<&Path>> =
        imports.keys().map(|file| circle_of(file)).filter(|circle| !circle.is_empty()).collect();
    found.into_iter().collect()
}

/// The rooms of the native crate, from the ground up; those of one row know nothing of each other.
const FLOORS: [&[&str]; 4] = [&["os"], &["store", "pack", "memo", "registry.rs"], &["cache"], &["target"]];

/// On which floor a file of the native crate is.
fn floor(file: &Path, folder: &Path) -> Option<(usize, &'static str)> {
    let room = file.strip_prefix(folder).ok()?.iter().next()?.to_str()?;
    FLOORS
        .iter()
        .enumerate()
        .find_map(|(floor, rooms)| rooms.iter().find(|name| **name == room).map(|name| (floor, *name)))
}

#[test]
fn rooms_import_only_rooms_below_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/src");
    let all = Crate::read(&folder);
    let imports = all.imports();
    let mut rooms = BTreeSet::new();
    for (file, others) in imports {
        let Some((upper, room)) = floor(file, &folder) else { continue };
        rooms.insert(room);
        for (lower, other) in others.iter().filter_map(|other| floor(other, &folder)) {
            let is_below = lower < upper || room == other;
            assert!(is_below, "{} imports something of {other}", file.display());
        }
    }
    assert_eq!(rooms.len(), FLOORS.concat().len(), "a room has no file");
}

#[test]
fn modules_import_each_other_in_one_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut shown = String::new();
    for (folder, least) in
        [("core/src", 50), ("native/src", 50), ("native/remote/src", 15), ("python/src", 6)]
    {
        let all = Crate::read(&root.join(folder));
        let imports = all.imports();
        assert!(imports.values().map(BTreeSet::len).sum::<usize>() > least, "imports are found in {folder}");
        let name = |file: &Path| file.strip_prefix(&root).unwrap_or(file).display().to_string();
        for circle in circles(&imports) {
            shown += "\na circle:";
            for file in &circle {
                let others = imports[file].iter().filter(|other| circle.contains(other));
                let others: Vec<_> = others.map(|other| name(other)).collect();
                shown += &format!("\n  {} imports {}", name(file), others.join(", "));
            }
        }
    }
    assert!(shown.is_empty(), "{shown}");
}
