//! The possible states of a disk after a power cut: all folders that a recorded series of changes can leave.
//!
//! A file system may write unsynced data in any order, or not at all. So after each change the power is cut, each kind of
//! [`Loss`] is applied to unsynced contents, and any unsynced name change is present or absent: a rename before the bytes
//! of its file, a removal before the change that made it needless. Synced data is present. Nothing here knows the meaning
//! of the files.

use crate::files::{Change, FileNumber};
use std::collections::{BTreeMap, BTreeSet};

/// The files of a folder.
pub type State = BTreeMap<String, Vec<u8>>;

/// Up to this many unsynced name changes are combined in every way; with more, only these combinations are tried: all,
/// none, each alone, and all but one.
const COMBINED: usize = 6;

/// The fate of unsynced bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// They are not lost: they reached the disk.
    None,
    /// The file ends before them.
    Dropped,
    /// The file has its length, and they are zeros.
    Zeroed,
    /// The second half of each write is zeros.
    Torn,
    /// The first write is zeros, and later ones are present.
    Reordered,
}

/// All kinds.
pub const LOSSES: [Loss; 5] = [
    Loss::None,
    Loss::Dropped,
    Loss::Zeroed,
    Loss::Torn,
    Loss::Reordered,
];

/// Each distinct state of the disk when the power is cut after the first `n` of these changes.
///
/// ```
/// use kiln_kernel_cache::{CacheKey, Content, DiskOptions, DiskTier, EntryKind, Tier};
/// use kiln_testkit::{files::MemoryFs, power_cut};
///
/// let fs = MemoryFs::new();
/// // SAFETY: nothing that it reads is run.
/// let tier = unsafe { DiskTier::with_fs(fs.clone(), DiskOptions::default()) };
/// let key = CacheKey::of_fields(EntryKind::PROGRAM, [("program", "a")]);
/// tier.put(&key, std::time::Duration::ZERO, Content::data(b"steps")).map_err(|e| e.to_string())?;
/// let changes = fs.changes();
/// let states = power_cut::states_after(&changes, changes.len());
/// assert!(states.iter().any(|state| state.is_empty()) && states.len() > 3);
/// # Ok::<(), String>(())
/// ```
pub fn states_after(changes: &[Change], n: usize) -> BTreeSet<State> {
    let done = changes.get(..n).unwrap_or(changes);
    let mut states = BTreeSet::new();
    let all_names = names(done);
    for loss in LOSSES {
        let contents = contents(done, loss);
        for names in &all_names {
            let named = |(name, file): (&String, &FileNumber)| {
                let content = contents.get(file).cloned().unwrap_or_default();
                (name.clone(), content)
            };
            states.insert(names.iter().map(named).collect());
        }
    }
    states
}

/// The bytes of each file.
fn contents(done: &[Change], loss: Loss) -> BTreeMap<FileNumber, Vec<u8>> {
    let mut contents: BTreeMap<FileNumber, (Vec<u8>, Vec<&[u8]>)> = BTreeMap::new();
    for change in done {
        match change {
            Change::Write(file, bytes) => contents.entry(*file).or_default().1.push(bytes),
            Change::SyncFile(file) => {
                let (lasting, pending) = contents.entry(*file).or_default();
                lasting.extend(std::mem::take(pending).concat());
            }
            _ => {}
        }
    }
    let on_disk = |(mut lasting, pending): (Vec<u8>, Vec<&[u8]>)| {
        for (position, bytes) in pending.into_iter().enumerate() {
            let (kept, zeros) = match loss {
                Loss::None => (bytes.len(), 0),
                Loss::Dropped => (0, 0),
                Loss::Zeroed => (0, bytes.len()),
                Loss::Torn => (bytes.len() / 2, bytes.len() - bytes.len() / 2),
                Loss::Reordered if position == 0 => (0, bytes.len()),
                Loss::Reordered => (bytes.len(), 0),
            };
            lasting.extend(bytes.iter().take(kept));
            lasting.resize(lasting.len() + zeros, 0);
        }
        lasting
    };
    contents
        .into_iter()
        .map(|(file, content)| (file, on_disk(content)))
        .collect()
}

/// Which names may be present, for which files.
fn names(done: &[Change]) -> BTreeSet<BTreeMap<String, FileNumber>> {
    let synced = done
        .iter()
        .rposition(|change| *change == Change::SyncFolder)
        .unwrap_or(0);
    let (lasting, pending) = done.split_at(synced);
    let pending: Vec<&Change> = pending
        .iter()
        .filter(|change| {
            matches!(
                change,
                Change::Create(..) | Change::Rename(..) | Change::Remove(_)
            )
        })
        .collect();
    let mut before = BTreeMap::new();
    lasting.iter().for_each(|change| apply(change, &mut before));
    let with = |is_there: &dyn Fn(usize) -> bool| {
        let mut names = before.clone();
        for (position, change) in pending.iter().enumerate() {
            if is_there(position) {
                apply(change, &mut names);
            }
        }
        names
    };
    if pending.len() <= COMBINED {
        let subsets = 0..1_u32 << pending.len();
        return subsets.map(|set| with(&|i| set >> i & 1 == 1)).collect();
    }
    let each = (0..pending.len()).flat_map(|one| [with(&|i| i == one), with(&|i| i != one)]);
    each.chain([with(&|_| true), with(&|_| false)]).collect()
}

fn apply(change: &Change, names: &mut BTreeMap<String, FileNumber>) {
    match change {
        Change::Create(name, file) => {
            names.insert(name.clone(), *file);
        }
        Change::Rename(from, to, file) => {
            names.remove(from);
            names.insert(to.clone(), *file);
        }
        Change::Remove(name) => {
            names.remove(name);
        }
        Change::Write(..) | Change::SyncFile(_) | Change::SyncFolder => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFs;
    use kiln_kernel_cache::Fs;

    /// A file of two writes that is renamed, synced before or not.
    fn renamed(is_synced: bool) -> Vec<Change> {
        let fs = MemoryFs::new();
        let folder = fs.open().unwrap();
        let mut file = folder.create("draft").unwrap();
        file.write(b"ab").unwrap();
        file.write(b"cd").unwrap();
        if is_synced {
            file.sync().unwrap();
        }
        folder.rename("draft", "file").unwrap();
        folder.sync().unwrap();
        fs.changes()
    }

    fn contents_of(states: &BTreeSet<State>) -> BTreeSet<Option<&[u8]>> {
        let contents = states.iter().map(|state| state.get("file"));
        contents.map(|content| content.map(Vec::as_slice)).collect()
    }

    #[test]
    fn a_rename_may_reach_the_disk_before_the_bytes_that_were_not_synced() {
        let changes = renamed(false);
        let last = states_after(&changes, changes.len());
        let expected: BTreeSet<Option<&[u8]>> =
            [&b"abcd"[..], b"", b"\0\0\0\0", b"a\0c\0", b"\0\0cd"]
                .into_iter()
                .map(Some)
                .collect();
        assert_eq!(contents_of(&last), expected);
        // Before the folder was synced, the name may be missing.
        let earlier = states_after(&changes, changes.len() - 1);
        assert!(contents_of(&earlier).contains(&None));
        assert!(earlier.iter().any(|state| state.contains_key("draft")));
    }

    #[test]
    fn synced_bytes_survive_a_power_cut() {
        let changes = renamed(true);
        let last = states_after(&changes, changes.len());
        assert_eq!(last.len(), 1);
        assert_eq!(contents_of(&last), [Some(&b"abcd"[..])].into());
        let earlier = states_after(&changes, changes.len() - 1);
        assert_eq!(contents_of(&earlier), [None, Some(&b"abcd"[..])].into());
        assert_eq!(states_after(&changes, 0), [State::new()].into());
    }
}
