//! The sizes of this machine's caches, from the processor.

/// The assumed sizes for a machine that does not report any: small, so that blocks fit.
const UNKNOWN: [usize; 3] = [32 << 10, 256 << 10, 1 << 20];

/// Bytes of the caches of level 1 to 3 available to one core.
#[cfg(target_arch = "x86_64")]
pub(crate) fn of_this_machine() -> [usize; 3] {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // Intel describes caches in leaf 4, AMD in the same form in leaf 8000001D.
    const LEAVES: [u32; 2] = [0x4, 0x8000_001d];
    let highest = [__cpuid(0).eax, __cpuid(0x8000_0000).eax];
    let described = LEAVES
        .iter()
        .zip(highest)
        .filter(|(leaf, highest)| *leaf <= highest);
    described
        .map(|(&leaf, _)| {
            from_leaves(|index| {
                let found = __cpuid_count(leaf, index);
                [found.eax, found.ebx, found.ecx]
            })
        })
        .find(|&caches| caches != UNKNOWN)
        .unwrap_or(UNKNOWN)
}

/// Bytes of the caches of level 1 to 3 available to one core.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn of_this_machine() -> [usize; 3] {
    UNKNOWN
}

/// Reads cache descriptions, EAX to ECX, until one marks the end.
///
/// The third level is shared: a core gets its share of it. Source: Intel's manual, CPUID leaf 4, "Deterministic Cache
/// Parameters".
#[cfg(target_arch = "x86_64")]
fn from_leaves(leaf: impl Fn(u32) -> [u32; 3]) -> [usize; 3] {
    const MAX_LEAVES: u32 = 16;
    let mut caches = UNKNOWN;
    let mut threads_of_a_core = 1;
    for [eax, ebx, ecx] in (0..MAX_LEAVES).map(leaf) {
        const INSTRUCTIONS: u32 = 2;
        match eax & 0x1f {
            0 => break,
            INSTRUCTIONS => continue,
            _ => {}
        }
        let level = ((eax >> 5) & 7) as usize;
        let threads = ((eax >> 14) & 0xfff) as usize + 1;
        let (line, partitions, ways) = (ebx & 0xfff, (ebx >> 12) & 0x3ff, ebx >> 22);
        let size = [line, partitions, ways, ecx]
            .iter()
            .try_fold(1usize, |size, &factor| {
                size.checked_mul(factor as usize + 1)
            });
        let (Some(size), Some(cache)) = (size, caches.get_mut(level.wrapping_sub(1))) else {
            continue;
        };
        if level == 1 {
            threads_of_a_core = threads;
        }
        let cores = (threads / threads_of_a_core).max(1);
        *cache = if level == 3 { size / cores } else { size };
    }
    caches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_of_this_machine_are_found() {
        let [first, second, third] = of_this_machine();
        assert!(first >= 8 << 10 && second >= first && third > 0);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn cache_descriptions_are_decoded() {
        let description = |kind: u32, level: u32, threads: u32, ways: u32, sets: u32| {
            [
                kind | (level << 5) | ((threads - 1) << 14),
                63 | ((ways - 1) << 22),
                sets - 1,
            ]
        };
        let leaves = [
            description(1, 1, 2, 12, 64),
            description(2, 1, 2, 8, 64),
            description(3, 2, 2, 16, 2048),
            description(3, 3, 32, 16, 65536),
            [0; 3],
            description(3, 2, 1, 1, 1),
        ];
        let caches = from_leaves(|index| leaves[index as usize]);
        assert_eq!(caches, [48 << 10, 2 << 20, 4 << 20]);
        assert_eq!(from_leaves(|_| [0; 3]), UNKNOWN);
        assert_eq!(from_leaves(|_| [3 | (7 << 5), 0, 0]), UNKNOWN);
        // More bytes than can be represented.
        assert_eq!(from_leaves(|_| [1 | (1 << 5), u32::MAX, u32::MAX]), UNKNOWN);
    }
}
