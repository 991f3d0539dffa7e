//! Unix sockets and their files: one server a file, whatever was left behind
//! and however many start at once.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::time::{Instant, sleep};

/// How long another server may take to bind a socket in the same directory,
/// which is milliseconds: whoever holds its lock for longer is something else.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// A Unix socket's file, removed when it is let go of.
///
/// That has to be before its listener is: as long as that listens, no other
/// server takes the file's place, and no other file gets its inode.
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode: somebody may have put another in this place.
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile {
            path: path.to_owned(),
            identity: identity(path)?,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Listens on a path, on which as many connections as `backlog` may wait.
pub(super) async fn bind(
    path: &Path,
    mode: u32,
    backlog: u32,
) -> io::Result<(SocketFile, UnixListener)> {
    // Until it listens. Else of two servers that find the same left socket one
    // could remove what the other has just bound.
    let _lock = lock_directory_of(path).await?;
    remove_stale(path).await?;
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let file = SocketFile::of(path)?;
    // Before it listens: nobody connects by looser permissions.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok((file, socket.listen(backlog)?))
}

/// Locks the directory against other servers. The system gives the lock back
/// with the file, however its owner ends, and nothing is left in the directory.
async fn lock_directory_of(path: &Path) -> io::Result<Option<File>> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let file = match File::open(directory) {
        Ok(file) => file,
        // That can be bound in, though not read.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(unlocked(directory, &error));
        }
        Err(error) => return Err(error),
    };
    let give_up = Instant::now() + LOCK_TIMEOUT;
    let mut waits = false;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from) {
            Ok(()) => return Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Some file systems of networks have no locks.
            Err(error) => return Ok(unlocked(directory, &error)),
        }
        if Instant::now() >= give_up {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "its directory is locked by another process",
            ));
        }
        if !waits {
            waits = true;
            tracing::info!(
                directory = %directory.display(),
                "waiting for another server that binds a socket in this directory"
            );
        }
        sleep(LOCK_INTERVAL).await;
    }
}

fn unlocked(directory: &Path, error: &io::Error) -> Option<File> {
    tracing::warn!(
        directory = %directory.display(), %error,
        "cannot lock the socket's directory: start no two servers on one socket at once"
    );
    None
}

/// Removes the socket that a server left behind which was killed. One that is
/// listened on stays, and so does whatever is no socket.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is a file of this name, and it is no socket",
        ));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "removing a socket that nobody listens on");
            fs::remove_file(path)
        }
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another server listens there",
        )),
        // Busy, or not ours to ask: somebody may listen.
        Err(error) => Err(error),
    }
}
