//! The memory of this machine, or of the control group that the process is in: the default limit of calls.

use std::fs;
use std::path::Path;

/// The percentage of the machine's memory that calls may use at one time.
const SHARE: u128 = 90;

/// Bytes that calls may use at one time unless the user sets a limit: most of the memory, or no limit if its size is
/// unknown.
pub(crate) fn default_limit() -> usize {
    limit_of(Path::new("/"))
}

fn limit_of(root: &Path) -> usize {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let machine = read("proc/meminfo").and_then(|text| total_of(&text));
    let group = read("proc/self/cgroup").and_then(|text| {
        let own = text.lines().find_map(|line| line.strip_prefix("0::"));
        limit_of_group(root, own.unwrap_or("/"))
    });
    // Version 1 of control groups.
    let first = read("sys/fs/cgroup/memory/memory.limit_in_bytes").and_then(|text| bytes(&text));
    let least = machine.into_iter().chain(group).chain(first).min();
    least.map_or(usize::MAX, |total| {
        usize::try_from(u128::from(total) * SHARE / 100).unwrap_or(usize::MAX)
    })
}

/// The minimum of the limits of a group and its ancestors.
fn limit_of_group(root: &Path, group: &str) -> Option<u64> {
    let base = root.join("sys/fs/cgroup");
    let group = base.join(group.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|path| path.starts_with(&base));
    let limits = groups.filter_map(|path| fs::read_to_string(path.join("memory.max")).ok());
    limits.filter_map(|text| bytes(&text)).min()
}

/// A number of bytes; `None` for `max`.
fn bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The total of `/proc/meminfo`, which counts in KiB.
fn total_of(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> usize {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        limit_of(root.path())
    }

    #[test]
    fn the_minimum_of_machine_and_groups_is_the_limit() {
        let total = ("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\n");
        let own = ("proc/self/cgroup", "0::/a/b\n");
        assert_eq!(machine(&[]), usize::MAX);
        assert_eq!(machine(&[total]), 921_600);
        let unlimited = ("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(machine(&[total, own, unlimited]), 921_600);
        let parent = ("sys/fs/cgroup/a/memory.max", "100000\n");
        assert_eq!(machine(&[total, own, unlimited, parent]), 90_000);
        let first = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "50000\n");
        assert_eq!(machine(&[total, first]), 45_000);
    }
}
