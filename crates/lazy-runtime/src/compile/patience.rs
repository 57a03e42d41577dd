//! How long a call waits for a compiler, and whether it compiles at all.

use std::time::Duration;

use super::queue::Urgency;
use crate::call::CallControl;

/// What may be done to obtain code for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Compile it, with this priority.
    Compile(Urgency),
    /// Only look in the tiers. Missing code is left for later.
    LookUp,
    /// Only look in the tiers. Missing code is an error.
    Demand,
}

impl Permission {
    /// Whether calls continue without the code meanwhile.
    pub(crate) fn is_background(self) -> bool {
        matches!(self, Self::Compile(Urgency::Background { .. }))
    }
}

/// How long one call may still wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience<'a> {
    pub(crate) permission: Permission,
    /// When the call continues without the code; `None` is never.
    pub(crate) block_until: Option<Duration>,
    /// When the call fails; `None` is never.
    pub(crate) fail_at: Option<Duration>,
    /// The call's cancellation.
    pub(crate) control: Option<&'a CallControl>,
}

/// Longer than any wait, and short enough for additions not to overflow.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

impl Patience<'_> {
    /// For a caller that needs the code, however long it takes.
    pub(crate) const ENDLESS: Self = Self {
        permission: Permission::Compile(Urgency::Urgent),
        block_until: None,
        fail_at: None,
        control: None,
    };

    /// Whether the call waits for as long as it takes.
    pub(crate) fn is_endless(&self) -> bool {
        self.block_until.is_none() && self.fail_at.is_none() && self.control.is_none()
    }

    /// Whether anything may be compiled.
    pub(crate) fn compiles(&self) -> bool {
        matches!(self.permission, Permission::Compile(_))
    }

    /// The maximum length of a wait that begins now.
    pub(crate) fn limit(&self, now: Duration) -> Duration {
        let until = [self.block_until, self.fail_at].into_iter().flatten();
        let left = until.map(|until| until.saturating_sub(now));
        let of_call = self.control.and_then(CallControl::left);
        left.chain(of_call).min().unwrap_or(FOR_EVER)
    }

    /// Whether a wait without a result is an error, rather than a reason to continue without code.
    pub(crate) fn is_failed(&self, now: Duration) -> bool {
        let goes_on = self.block_until.is_some_and(|until| until <= now);
        !goes_on && self.fail_at.is_some_and(|until| until <= now)
    }
}
