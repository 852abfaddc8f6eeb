//! What the checks read: the crates of the workspace and the files of the checkout.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, MetadataCommand, Package};

use crate::process;

/// Larger files are data, not text to check (bytes).
const TEXT_FILE_BYTES_MAX: u64 = 4 << 20;
/// Folders nested deeper than this are not searched when git cannot list the files (folders).
const FOLDER_DEPTH_MAX: usize = 16;

/// The checkout as cargo sees it.
pub(crate) struct Workspace {
    /// Absolute path of the checkout.
    pub root: String,
    /// Absolute path of the folder that holds build output.
    pub target: String,
    /// Every member, by name.
    pub crates: Vec<Crate>,
}

/// One member of the workspace.
pub(crate) struct Crate {
    pub name: String,
    /// Folder of the crate from the root, such as `crates/engine`.
    pub folder: String,
    /// `layer` of `[package.metadata]`.
    pub layer: Option<u64>,
    pub dependencies: Vec<Dependency>,
    /// The text of its Cargo.toml.
    pub manifest: String,
}

/// One dependency line of a member.
pub(crate) struct Dependency {
    pub name: String,
    /// Used by tests, benches and examples only.
    pub dev: bool,
}

/// One file of the checkout.
pub(crate) struct SourceFile {
    /// Path from the root, with forward slashes.
    pub path: String,
    /// None when the file is not UTF-8 or larger than text is.
    pub text: Option<String>,
}

impl Workspace {
    /// Asks cargo, from the current folder.
    pub(crate) fn load() -> Result<Self> {
        let metadata =
            MetadataCommand::new().no_deps().exec().context("read the workspace with cargo metadata")?;
        let root = metadata.workspace_root.to_string();
        let mut crates = metadata
            .packages
            .iter()
            .map(|package| Crate::read(package, &root))
            .collect::<Result<Vec<_>>>()?;
        crates.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { root, target: metadata.target_directory.to_string(), crates })
    }

    /// Every file that is tracked or would be: git's list where there is a git, else what the folders hold.
    pub(crate) fn files(&self) -> Result<Vec<SourceFile>> {
        let root = Path::new(&self.root);
        let mut paths = if root.join(".git").exists() { self.git_files()? } else { walked_files(root)? };
        paths.sort();
        paths.dedup();
        let files = paths.into_iter().filter(|path| root.join(path).is_file());
        files
            .map(|path| {
                let text = read_text(&root.join(&path))?;
                Ok(SourceFile { path, text })
            })
            .collect()
    }

    fn git_files(&self) -> Result<Vec<String>> {
        // CI may run as another user than the owner of the checkout, which git refuses unless told.
        let safe = format!("safe.directory={}", self.root);
        let git = ["git", "-c", &safe, "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listing = process::output(&self.root, &git).context("list the files of the checkout with git")?;
        Ok(listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
    }
}

impl Crate {
    fn read(package: &Package, root: &str) -> Result<Self> {
        let Some(folder) = package.manifest_path.parent().and_then(|folder| folder.strip_prefix(root).ok())
        else {
            bail!("{} lies outside the workspace: {}", package.name, package.manifest_path);
        };
        let dependencies = package.dependencies.iter().map(|dependency| Dependency {
            name: dependency.name.clone(),
            dev: dependency.kind == DependencyKind::Development,
        });
        Ok(Self {
            name: package.name.to_string(),
            folder: folder.to_string(),
            layer: package.metadata.get("layer").and_then(serde_json::Value::as_u64),
            dependencies: dependencies.collect(),
            manifest: fs::read_to_string(&package.manifest_path)
                .with_context(|| format!("read {}", package.manifest_path))?,
        })
    }

    /// Path of its Cargo.toml from the root.
    pub(crate) fn manifest_path(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

/// What follows the last dot of a file's name; empty when it has none.
pub(crate) fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn read_text(path: &Path) -> Result<Option<String>> {
    let describe = || format!("read {}", path.display());
    if fs::metadata(path).with_context(describe)?.len() > TEXT_FILE_BYTES_MAX {
        return Ok(None);
    }
    Ok(String::from_utf8(fs::read(path).with_context(describe)?).ok())
}

/// For a checkout without git, such as an unpacked source archive.
fn walked_files(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let relative = folder.strip_prefix(root).expect("the walk starts at the root");
        if relative.components().count() > FOLDER_DEPTH_MAX {
            bail!("{} is nested too deep to be ours", folder.display());
        }
        for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let entry = entry?;
            let name = entry.file_name();
            let path = entry.path();
            let kind = entry.file_type()?;
            if kind.is_dir() && name != "target" && name != ".git" {
                folders.push(path);
            } else if kind.is_file() {
                let relative = path.strip_prefix(root).expect("the walk starts at the root");
                files.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
