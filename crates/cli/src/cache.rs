//! `kiln cache`: lists, measures, checks and clears stored code.

use crate::report::{self, Failures};
use anyhow::{Error, bail};
use clap::{Args, Subcommand};
use kiln::Cache as Folder;
use kiln::internals::kernel_cache::{DiskTier, EntryHead, EntryInfo, FieldValue};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Manages compiled code.
#[derive(Args, Debug)]
pub(crate) struct Cache {
    /// The folder; by default, the one that models use
    #[arg(long, value_name = "DIR", global = true)]
    folder: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List entries, most recently used first
    Ls,
    /// Count entries and bytes by kind
    Stats,
    /// Read and check every entry completely
    Verify {
        /// Remove damaged entries
        #[arg(long)]
        remove: bool,
    },
    /// Remove every entry, and files left behind by processes that died
    Clear,
}

/// An entry in the output.
#[derive(Serialize)]
struct Entry {
    digest: String,
    bytes: u64,
    /// Seconds since its last use.
    used_seconds_ago: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compile_ms: Option<f64>,
    /// The fields of its key, without the subject.
    fields: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Cache {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        let folder = match &self.folder {
            Some(path) => Folder::folder(path),
            None => Folder::default(),
        };
        let (Some(disk), Some(path)) = (folder.open(), folder.path()) else {
            bail!(
                "there is no cache folder: KILN_CACHE_DIR is `off`, or HOME is not set; pass --folder"
            );
        };
        match self.action {
            Action::Ls => self.list(&disk),
            Action::Stats => self.stats(&disk, &path.display().to_string()),
            Action::Verify { remove } => return self.verify(&disk, remove),
            Action::Clear => self.clear(&disk),
        }?;
        Ok(Failures::default())
    }

    fn list(&self, disk: &DiskTier) -> Result<(), Error> {
        for info in disk.entries()? {
            let entry = Entry::of(&info);
            if self.json {
                report::line(serde_json::to_string(&entry)?)?;
                continue;
            }
            let Entry {
                digest,
                bytes,
                used_seconds_ago,
                kind,
                compile_ms,
                fields,
                problem,
            } = &entry;
            let short: String = digest.chars().take(8).collect();
            let what = match problem {
                Some(problem) => problem.clone(),
                None => {
                    let fields = fields.iter().filter(|(_, value)| !value.is_empty());
                    let fields = fields.map(|(name, value)| format!("{name} {value}"));
                    fields.collect::<Vec<_>>().join(", ")
                }
            };
            report::line(format!(
                "{short}  {:8}  {:>10}  {:>8.1} ms  used {:>9} ago  {what}",
                kind.as_deref().unwrap_or("?"),
                size(*bytes),
                compile_ms.unwrap_or(0.0),
                age(*used_seconds_ago),
            ))?;
        }
        Ok(())
    }

    fn stats(&self, disk: &DiskTier, path: &str) -> Result<(), Error> {
        let usage = disk.usage()?;
        let mut kinds: Vec<(String, u64, u64)> = Vec::new();
        for info in disk.entries()? {
            let kind = info.head.map_or("unreadable".to_owned(), |head| head.kind);
            match kinds.iter_mut().find(|(known, ..)| *known == kind) {
                Some((_, entries, bytes)) => {
                    *entries += 1;
                    *bytes += info.bytes;
                }
                None => kinds.push((kind, 1, info.bytes)),
            }
        }
        kinds.sort();
        if self.json {
            let kinds: Vec<_> = kinds
                .iter()
                .map(|(kind, entries, bytes)| {
                    serde_json::json!({"kind": kind, "entries": entries, "bytes": bytes})
                })
                .collect();
            return report::line(
                serde_json::json!({
                    "folder": path, "entries": usage.entries, "bytes": usage.bytes,
                    "max_bytes": usage.max_bytes, "other_formats": usage.foreign_entries,
                    "drafts": usage.drafts, "kinds": kinds,
                })
                .to_string(),
            );
        }
        report::line(format!("folder         {path}"))?;
        report::line(format!(
            "holds          {} entries, {} of at most {}",
            usage.entries,
            size(usage.bytes),
            size(usage.max_bytes)
        ))?;
        for (kind, entries, bytes) in kinds {
            report::line(format!("  {kind:12} {entries:6}  {:>10}", size(bytes)))?;
        }
        if usage.foreign_entries > 0 {
            let (n, bytes) = (usage.foreign_entries, size(usage.foreign_bytes));
            report::line(format!("other formats  {n} entries, {bytes}"))?;
        }
        if usage.drafts > 0 {
            report::line(format!("being written  {}", usage.drafts))?;
        }
        Ok(())
    }

    fn verify(&self, disk: &DiskTier, remove: bool) -> Result<Failures, Error> {
        let verified = disk.verify(remove)?;
        let mut failures = Failures::default();
        for (digest, miss) in &verified.bad {
            failures.add(&digest.short(), &anyhow::anyhow!("{miss}"));
        }
        let bad = verified.bad.len();
        if self.json {
            report::line(serde_json::json!({"whole": verified.whole, "bad": bad}).to_string())?;
        } else {
            report::line(format!(
                "{} entries are intact, {bad} are not",
                verified.whole
            ))?;
        }
        Ok(failures)
    }

    fn clear(&self, disk: &DiskTier) -> Result<(), Error> {
        let cleared = disk.clear()?;
        if cleared.failed > 0 {
            bail!("{} entries could not be removed", cleared.failed);
        }
        let (entries, bytes) = (cleared.entries, cleared.bytes);
        if self.json {
            return report::line(
                serde_json::json!({"entries": entries, "bytes": bytes}).to_string(),
            );
        }
        report::line(format!("removed {entries} entries, {}", size(bytes)))
    }
}

impl Entry {
    fn of(info: &EntryInfo) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |time| time.as_nanos() as i128);
        let mut entry = Self {
            digest: info.digest.to_string(),
            bytes: info.bytes,
            used_seconds_ago: (now - info.used).max(0) as f64 / 1e9,
            kind: None,
            compile_ms: None,
            fields: Vec::new(),
            problem: None,
        };
        match &info.head {
            Ok(head) => entry.describe(head),
            Err(miss) => entry.problem = Some(miss.to_string()),
        }
        entry
    }

    fn describe(&mut self, head: &EntryHead) {
        self.kind = Some(head.kind.escape_debug().to_string());
        self.compile_ms = Some(head.compile_time.as_secs_f64() * 1e3);
        let fields = head.fields.iter().skip(1).map(|field| {
            let value = match &field.value {
                FieldValue::Text(text) => text.escape_debug().to_string(),
                value => value.to_string(),
            };
            (field.name.escape_debug().to_string(), value)
        });
        self.fields = fields.collect();
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

fn age(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_print_in_short_units() {
        assert_eq!(
            [size(999), size(45_000), size(90_000_000)],
            ["999 B", "45.0 kB", "90.0 MB"]
        );
        assert_eq!(
            [age(3.0), age(600.0), age(7300.0), age(200_000.0)],
            ["3 s", "10 min", "2 h", "2 days"]
        );
    }
}
