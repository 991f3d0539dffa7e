//! A stream whose answers nobody reads ends with `ABORTED`.
//!
//! While a client's window is shut, hyper and h2 hold what they could not send,
//! and hyper asks for no more: nothing polls the answers, and no timer among
//! them would be looked at. So a task beside them looks whether they are read.
//! When they are not, it lets go of all that the stream holds, and leaves the
//! status for the client that reads on after all.
//!
//! How much was sent is told by what sends it ([`Sent`]), byte by byte: a frame
//! that the client takes in crumbs is read.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, Either};
use futures_util::task::AtomicWaker;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::{HeaderMap, Request, Response};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic::{Code, Status};

use super::company::Company;
use crate::telemetry::call::CallRecord;

/// The one call whose answers are a stream.
const SOLVE_BATCH: &str = "/loyd.v1.SolverService/SolveBatch";

/// How often in a stall timeout a stream is looked at: it ends at most a
/// quarter of the timeout late, and its task hardly ever wakes.
const LOOKS: u32 = 4;

/// The least time between two looks, however short the timeout: a look is to
/// cost next to nothing.
const LEAST_PAUSE: Duration = Duration::from_millis(10);

/// A service whose streams end once they are not read for so long.
#[derive(Clone)]
pub struct EndStalled<S> {
    pub(super) inner: S,
    pub(super) timeout: Duration,
}

impl<S: NamedService> NamedService for EndStalled<S> {
    const NAME: &'static str = S::NAME;
}

type Answer = Result<Response<Body>, Infallible>;

impl<S> Service<Request<Body>> for EndStalled<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, BoxFuture<'static, Answer>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() != SOLVE_BATCH {
            return Either::Left(self.inner.call(request));
        }
        let record = request.extensions().get::<CallRecord>().cloned();
        let (give_back, given_back) = oneshot::channel();
        let lend = |body| {
            Body::new(Lent {
                body,
                give_back: Some(give_back),
            })
        };
        let answered = self.inner.call(request.map(lend));
        let timeout = self.timeout;
        Either::Right(Box::pin(async move {
            let response = answered.await?;
            if response.body().is_end_stream() {
                return Ok(response);
            }
            let sent = Sent::default();
            let mut response = response.map(|body| {
                Body::new(Watched::new(
                    body,
                    given_back,
                    timeout,
                    record,
                    sent.clone(),
                ))
            });
            response.extensions_mut().insert(sent);
            Ok(response)
        }))
    }
}

/// A request's body that is given back when its reader drops it.
struct Lent {
    body: Body,
    give_back: Option<oneshot::Sender<Body>>,
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(give_back) = self.give_back.take() {
            // Nobody waits for it where the call is over.
            let _ = give_back.send(std::mem::take(&mut self.body));
        }
    }
}

/// A response's body that is watched.
struct Watched {
    shared: Arc<Shared>,
    watch: AbortHandle,
}

struct Shared(Mutex<State>);

struct State {
    answers: Answers,
    /// How often a frame was asked for.
    asked: u64,
    /// A frame was handed over, and the next has not been asked for: all there is
    /// to see where what is sent is not counted.
    is_last_handed: bool,
    /// The bytes that were handed over.
    handed: u64,
    sent: Sent,
    /// Who waits for the next frame.
    reader: Option<Waker>,
}

/// How many bytes of a stream's answers were sent: an extension of its response,
/// for what sends them to count.
#[derive(Clone, Default)]
pub(crate) struct Sent(Arc<Counts>);

#[derive(Default)]
struct Counts {
    is_counted: AtomicBool,
    bytes: AtomicU64,
    /// Who waits for more to be sent.
    waiting: AtomicWaker,
}

impl Sent {
    /// From now on all that is sent is counted. Where that is never said, what
    /// is sent is not what was handed over.
    pub(crate) fn begin(&self) {
        self.0.is_counted.store(true, Ordering::Release);
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes as u64, Ordering::Release);
        self.0.waiting.wake();
    }

    /// `None` where it is not counted.
    fn bytes(&self) -> Option<u64> {
        let is_counted = self.0.is_counted.load(Ordering::Acquire);
        is_counted.then(|| self.0.bytes.load(Ordering::Acquire))
    }

    /// Resolves once so many bytes were sent; at once where they are not counted.
    fn poll_all(&self, handed: u64, context: &Context<'_>) -> Poll<()> {
        self.0.waiting.register(context.waker());
        match self.bytes() {
            Some(sent) if sent < handed => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}

enum Answers {
    /// To come from here.
    Open(Company),
    /// Let go of; this is all that is left to say.
    Ended(Option<HeaderMap>),
}

impl Watched {
    fn new(
        answers: Body,
        request: oneshot::Receiver<Body>,
        timeout: Duration,
        record: Option<CallRecord>,
        sent: Sent,
    ) -> Watched {
        let shared = Arc::new(Shared(Mutex::new(State {
            answers: Answers::Open(Company::new(answers)),
            asked: 0,
            is_last_handed: false,
            handed: 0,
            sent,
            reader: None,
        })));
        let watch = watch(Arc::clone(&shared), request, timeout, record);
        let watch = tokio::spawn(watch).abort_handle();
        Watched { shared, watch }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let state = &mut *self.shared.state();
        let polled = match &mut state.answers {
            Answers::Open(answers) => answers.poll_frame(context),
            Answers::Ended(trailers) => {
                // Before all is sent h2 would be left with a stream that is at
                // an end here, and hold its place when the client resets it.
                ready!(state.sent.poll_all(state.handed, context));
                return Poll::Ready(trailers.take().map(Frame::trailers).map(Ok));
            }
        };
        state.asked += 1;
        state.is_last_handed = false;
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            state.is_last_handed = true;
            state.handed += data.len() as u64;
        }
        if polled.is_pending() {
            match &mut state.reader {
                Some(reader) => reader.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.shared.state().answers {
            Answers::Open(answers) => answers.is_end_stream(),
            Answers::Ended(trailers) => trailers.is_none(),
        }
    }
}

impl State {
    /// How far it was read: another number as soon as it is read on. `None`
    /// where nothing is unread, or it was ended.
    fn unread_since(&self) -> Option<u64> {
        let (is_unread, progress) = match self.sent.bytes() {
            Some(sent) => (sent < self.handed, sent),
            None => (self.is_last_handed, self.asked),
        };
        let is_open = matches!(self.answers, Answers::Open(_));
        (is_open && is_unread).then_some(progress)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic leaves behind is the answers' own, and they are ended.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the answers where they still are as unread as they were.
    fn end(&self, unread_since: u64, status: &Status) -> Ended {
        let mut state = self.state();
        if state.unread_since() != Some(unread_since) {
            return Ended::Read;
        }
        let Answers::Open(answers) = &mut state.answers else {
            return Ended::Read;
        };
        // Where the frame that waits was the last one, nothing is cut off.
        let next = answers.poll_frame(&mut Context::from_waker(Waker::noop()));
        let (trailers, complete) = match next {
            Poll::Ready(None) => (None, true),
            Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => {
                (frame.into_trailers().ok(), true)
            }
            _ => {
                let mut trailers = HeaderMap::new();
                // Its message is ours and fits a header.
                let _ = status.add_header(&mut trailers);
                (Some(trailers), false)
            }
        };
        let left = std::mem::replace(&mut state.answers, Answers::Ended(trailers));
        let reader = state.reader.take();
        drop(state);
        // Not under the lock: it cancels the searches and frees their answers.
        drop(left);
        // Of what it waited for nothing comes any more.
        if let Some(reader) = reader {
            reader.wake();
        }
        if complete {
            Ended::Complete
        } else {
            Ended::Cut
        }
    }
}

/// What came of an attempt to end a stream.
enum Ended {
    /// It was read after all.
    Read,
    /// All of it had been handed over.
    Complete,
    /// Answers are missing.
    Cut,
}

/// Tells that a stream was ended, also where its client never reads the status.
fn tell(timeout: Duration, record: Option<&CallRecord>) {
    if let Some(record) = record {
        record.given_up(Code::Aborted as usize);
    }
    tracing::info!(
        method = record.map(CallRecord::method),
        peer = record.map(CallRecord::peer),
        request_id = record.map(CallRecord::request_id),
        ?timeout,
        "the answers of a stream were not read; it was ended"
    );
}

/// Ends a stream that is not read for the timeout, and then reads and throws
/// away what its client still sends, until the client reads on or goes.
async fn watch(
    shared: Arc<Shared>,
    request: oneshot::Receiver<Body>,
    timeout: Duration,
    record: Option<CallRecord>,
) {
    let status = Status::aborted(format!(
        "the answers were not read for {timeout:?}: read them while sending, \
         and go on after the last id that was answered"
    ));
    let mut seen = None;
    let mut looks = 0;
    loop {
        // Looks are counted and not the time, which also passes while this
        // process is stopped and no client could be heard.
        tokio::time::sleep((timeout / LOOKS).max(LEAST_PAUSE)).await;
        let unread = shared.state().unread_since();
        if unread != seen {
            seen = unread;
            looks = 0;
            continue;
        }
        let Some(unread_since) = unread else { continue };
        looks += 1;
        if looks < LOOKS {
            continue;
        }
        match shared.end(unread_since, &status) {
            Ended::Read => seen = None,
            Ended::Complete => break,
            Ended::Cut => {
                tell(timeout, record.as_ref());
                break;
            }
        }
    }
    // A client that writes everything before it reads must get to its reading,
    // or it would never be told.
    if let Ok(mut request) = request.await {
        while let Some(Ok(_)) = poll_fn(|context| Pin::new(&mut request).poll_frame(context)).await
        {
        }
    }
}
