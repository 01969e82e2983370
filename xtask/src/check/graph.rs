//! The packages and what they depend on, as cargo tells.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use serde::Deserialize;

use crate::house::{cargo, output};

/// Everything that is built on this platform.
#[derive(Debug, Deserialize)]
pub(super) struct Graph {
    pub(super) packages: Vec<Package>,
    pub(super) workspace_members: BTreeSet<String>,
}

/// One package.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    pub(super) dependencies: Vec<Dependency>,
}

/// What a package's manifest asks for.
#[derive(Debug, Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// `null` for an ordinary one.
    pub(super) kind: Option<String>,
}

impl Graph {
    pub(super) fn load() -> anyhow::Result<Self> {
        let version = output("rustc", &["-vV"])?;
        let host = version.lines().find_map(|l| l.strip_prefix("host: "));
        let host = host.context("rustc names no host")?;
        let arguments = [
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform",
            host,
        ];
        let text = output(&cargo(), &arguments)?;
        serde_json::from_str(&text).context("reading what cargo metadata prints")
    }

    /// The packages of this repository.
    pub(super) fn ours(&self) -> impl Iterator<Item = &Package> {
        let members = &self.workspace_members;
        self.packages.iter().filter(|p| members.contains(&p.id))
    }

    /// The packages of others.
    pub(super) fn foreign(&self) -> impl Iterator<Item = &Package> {
        let members = &self.workspace_members;
        self.packages.iter().filter(|p| !members.contains(&p.id))
    }

    /// The versions of each foreign package.
    pub(super) fn versions(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in self.foreign() {
            let known = versions.entry(&package.name).or_default();
            known.insert(&package.version);
        }
        versions
    }
}
