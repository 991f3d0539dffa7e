//! What searches write to, kept from one to the next.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use super::best_first::BestFirst;
use super::frontier::Frontier;
use super::visited::Visited;
use crate::puzzle::Direction;

/// Everything that a running search writes to.
///
/// A new one is empty; what a method needs is allocated when it first runs and
/// kept: on 3x3 a quarter of a megabyte for bidirectional search, less than one
/// for BFS from one end, and up to two for the best-first ones. A search never
/// reads what another has left, so a workspace is ready for the next one also
/// where the last was broken off.
#[derive(Default)]
pub struct Workspace {
    breadth_first: Option<Box<BreadthFirst>>,
    best_first: Option<Box<BestFirst>>,
}

impl Workspace {
    /// An empty workspace.
    pub fn new() -> Workspace {
        Workspace::default()
    }

    /// What the breadth-first methods write to: no state is visited, and the
    /// rest is as it was left.
    #[inline]
    pub(super) fn breadth_first(&mut self) -> &mut BreadthFirst {
        let parts = self.breadth_first.get_or_insert_with(|| {
            Box::new(BreadthFirst {
                visited: Visited::new(),
                from_start: Frontier::new(),
                from_goal: Frontier::new(),
                path: Vec::new(),
            })
        });
        parts.visited.begin();
        parts
    }

    /// What the best-first methods write to, as it was left.
    #[inline]
    pub(super) fn best_first(&mut self) -> &mut BestFirst {
        self.best_first
            .get_or_insert_with(|| Box::new(BestFirst::new()))
    }
}

/// The part of a [`Workspace`] that breadth-first search uses.
pub(super) struct BreadthFirst {
    pub(super) visited: Visited,
    pub(super) from_start: Frontier,
    pub(super) from_goal: Frontier,
    /// The moves of a solution, the last one first.
    pub(super) path: Vec<Direction>,
}

/// The most workspaces that a pool keeps while nobody uses them.
const KEPT: usize = 16;

/// Workspaces for many threads: one leased is one that nobody else has.
///
/// As many are handed out as asked for, and sixteen are kept when they come
/// back, so that a burst does not hold its memory for good. A thread gets the
/// one back that it had: another's is in the caches of another core.
#[derive(Default)]
pub struct WorkspacePool {
    /// With the thread that had it last; the one that was longest idle first.
    idle: Mutex<Vec<(ThreadId, Workspace)>>,
}

impl WorkspacePool {
    /// A pool that has none yet.
    pub fn new() -> WorkspacePool {
        WorkspacePool::default()
    }

    /// A workspace, to be given back when the lease is dropped.
    pub fn lease(&self) -> WorkspaceLease<'_> {
        let thread = thread::current().id();
        let mut idle = self.idle();
        let own = idle.iter().rposition(|(of, _)| *of == thread);
        // What is new to this thread is made rather than taken from another
        // one, as long as there are few.
        let other = (idle.len() >= KEPT).then_some(0);
        let kept = own.or(other).map(|place| idle.remove(place).1);
        drop(idle);
        WorkspaceLease {
            pool: self,
            workspace: kept.unwrap_or_default(),
        }
    }

    /// The number of workspaces that wait for use.
    pub fn idle_count(&self) -> usize {
        self.idle().len()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(ThreadId, Workspace)>> {
        // Nothing that can panic runs under the lock but the allocator.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A workspace that goes back to its pool when this is dropped. In a thread
/// that panics it is thrown away: a search cut short by a bug is the one that
/// nobody has thought about.
pub struct WorkspaceLease<'a> {
    pool: &'a WorkspacePool,
    workspace: Workspace,
}

impl Deref for WorkspaceLease<'_> {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.workspace
    }
}

impl DerefMut for WorkspaceLease<'_> {
    fn deref_mut(&mut self) -> &mut Workspace {
        &mut self.workspace
    }
}

impl Drop for WorkspaceLease<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        let workspace = std::mem::take(&mut self.workspace);
        let mut idle = self.pool.idle();
        if idle.len() < KEPT {
            idle.push((thread::current().id(), workspace));
        }
    }
}
