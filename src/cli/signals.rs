//! What the system tells a server: to stop, to stop at once, and that its files
//! changed.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::server::Tls;

/// Two futures: the first SIGTERM or Ctrl-C, and the second.
pub(super) fn stop_signals() -> io::Result<(impl Future<Output = ()>, impl Future<Output = ()>)> {
    let terminate = signal(SignalKind::terminate())?;
    let interrupt = signal(SignalKind::interrupt())?;
    let (count, counted) = watch::channel(0_u32);
    tokio::spawn(count_signals(terminate, interrupt, count));
    let reached = |number: u32| {
        let mut counted = counted.clone();
        async move {
            if counted.wait_for(|count| *count >= number).await.is_err() {
                // The counting task can't end before the runtime does.
                std::future::pending::<()>().await;
            }
        }
    };
    Ok((reached(1), reached(2)))
}

async fn count_signals(mut terminate: Signal, mut interrupt: Signal, count: watch::Sender<u32>) {
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        count.send_modify(|count| *count += 1);
    }
}

/// Looks at the certificates again at each SIGHUP, until the runtime ends.
/// Without TLS the signal is taken all the same: it would end the process.
pub(super) fn reload_on_hangup(tls: Option<Arc<Tls>>) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            match &tls {
                Some(tls) => tls.reload_soon(),
                None => tracing::info!("nothing to reload: no certificates are used"),
            }
        }
    });
    Ok(())
}
