//! One thread that drives the asynchronous clients of object stores, started when it is first needed. Callers wait for it with a
//! deadline, in asynchronous hosts and elsewhere. A forked child starts its own.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};

use tokio::{runtime, sync::mpsc as channel, time::timeout_at};
use warmstart::os::fork::{self, Mutex};

use super::client::{Client, Source};
use crate::engine::Trouble;

type Work = Box<dyn FnOnce(Result<Arc<Client>, Trouble>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The clients of one place, and the thread that drives them.
pub(crate) struct Driver {
    source: Source,
    lacks_keys: bool,
    running: Mutex<Option<Running>>,
}

struct Running {
    /// The process that the thread belongs to.
    generation: u64,
    work: channel::UnboundedSender<Work>,
}

impl Driver {
    pub(crate) fn new(source: Source) -> Self {
        Self { lacks_keys: source.lacks_keys(), source, running: Mutex::new(None) }
    }

    /// Returns what `work` returns, or [`Trouble::TimedOut`] at `until`. The work is then dropped.
    pub(super) fn call<T, F, W>(&self, until: Instant, work: W) -> Result<T, Trouble>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Trouble>> + Send + 'static,
        W: FnOnce(Arc<Client>) -> F + Send + 'static,
    {
        let (answer, answered) = mpsc::sync_channel(1);
        self.begin(move |client| async move {
            let ended = match client {
                Ok(client) => timeout_at(until.into(), work(client)).await,
                Err(trouble) => Ok(Err(trouble)),
            };
            let _ = answer.send(ended.unwrap_or_else(|_| Err(late())));
        })?;
        let ended = match answered.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(late()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(Trouble::Other("a request was given up".to_owned()))
            }
        };
        ended.map_err(|trouble| self.explain(trouble))
    }

    /// Says what to do about a trouble, where this machine's settings tell.
    pub(super) fn explain(&self, trouble: Trouble) -> Trouble {
        let explained = |why: String| {
            format!(
                "{why}; no keys are set, so the role of the machine was asked for: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"
            )
        };
        match trouble {
            Trouble::TimedOut(why) if self.lacks_keys => Trouble::TimedOut(explained(why)),
            Trouble::Unreachable(why) if self.lacks_keys => Trouble::Unreachable(explained(why)),
            trouble => trouble,
        }
    }

    /// Begins `work`, and waits for nothing.
    pub(super) fn begin<F>(
        &self,
        work: impl FnOnce(Result<Arc<Client>, Trouble>) -> F + Send + 'static,
    ) -> Result<(), Trouble>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let work: Work = Box::new(move |client| Box::pin(work(client)));
        let mut running = self.running.lock();
        if let Some(parent) = running.take_if(|running| running.generation != fork::generation()) {
            // The thread does not exist here, and may have held a lock of the channel.
            mem::forget(parent);
        }
        let work = match &*running {
            Some(running) => match running.work.send(work) {
                Ok(()) => return Ok(()),
                Err(refused) => refused.0,
            },
            None => work,
        };
        let (sender, receiver) = channel::unbounded_channel();
        let source = self.source.clone();
        let started = thread::Builder::new()
            .name("warmstart-remote".to_owned())
            .spawn(move || drive(&source, receiver));
        started.map_err(|_| Trouble::Other("no thread can be started".to_owned()))?;
        // Work that the thread does not take is dropped, which its caller sees.
        let _ = sender.send(work);
        *running = Some(Running { generation: fork::generation(), work: sender });
        Ok(())
    }
}

/// Returns the trouble of a request that is not answered by its deadline.
pub(super) fn late() -> Trouble {
    Trouble::TimedOut("the time is up".to_owned())
}

/// Runs the work that arrives, until the driver is dropped.
fn drive(source: &Source, mut work: channel::UnboundedReceiver<Work>) {
    let Ok(runtime) = runtime::Builder::new_current_thread().enable_all().build() else { return };
    let client = Client::new(source).map(Arc::new);
    runtime.block_on(async {
        while let Some(work) = work.recv().await {
            tokio::spawn(work(client.clone()));
        }
    });
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("source", &self.source).finish_non_exhaustive()
    }
}
