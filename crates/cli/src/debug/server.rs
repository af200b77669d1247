//! Who may ask for what: the page, its stream of events, requests to the run, a recorded step, the doctor's findings, and figures for
//! Prometheus.
//!
//! A page of another site that guesses the port reaches nothing: every request carries the token, is addressed to this machine by a name of
//! its own (else a foreign name could be made to lead here), and comes from no other origin.
use super::{
    feed::{Feed, PageEvent, PageStream},
    page, prometheus,
    steer::Steering,
};
use adamant_train::{Failure, doctor::diagnose};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    middleware::{Next, from_fn_with_state},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
    routing::{get, post},
};
use futures_core::Stream;
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    net::TcpListener,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use subtle::ConstantTimeEq;
use tokio::sync::{Semaphore, mpsc::Receiver, oneshot};

/// Bytes of a request's body: a line of the control protocol.
const MOST_BODY: usize = adamant_train::control::LONGEST;
/// Threads that may wait for the run or the disk.
const MOST_THREADS: usize = 12;
/// When a page comes back whose stream ended.
const COMES_BACK: Duration = Duration::from_millis(500);

/// See the module's documentation.
pub struct DebugSite {
    run: PathBuf,
    port: u16,
    token: String,
    panels: String,
    feed: Arc<Feed>,
    steering: Steering,
    /// one doctor at a time
    doctor: Semaphore,
}
impl DebugSite {
    pub fn new(run: &Path, port: u16, token: &str, panels: &[&str], feed: Arc<Feed>) -> DebugSite {
        let (run, token, panels) = (run.to_path_buf(), token.to_string(), panels.join(" "));
        DebugSite { steering: Steering::of(&run), run, port, token, panels, feed, doctor: Semaphore::new(1) }
    }
}
/// Serves until `ended` says that it is enough, or nobody can say so any more.
///
/// # Errors
/// The system gives no runtime, or no socket.
pub fn serve(listener: TcpListener, site: Arc<DebugSite>, ended: oneshot::Receiver<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(MOST_THREADS).build()?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let server = axum::serve(listener, routes(site));
        tokio::spawn(async move { server.await });
        let _ = ended.await;
        Ok(())
    });
    // Streams have no end, and who waits for the run is not waited for.
    runtime.shutdown_background();
    served
}
fn routes(site: Arc<DebugSite>) -> Router {
    Router::new()
        .route("/", get(show_page))
        .route("/metrics", get(show_metrics))
        .route("/api/state", get(show_state))
        .route("/api/events", get(stream_events))
        .route("/api/profile", get(show_profile))
        .route("/api/doctor", get(ask_doctor))
        .route("/api/control", post(ask_run))
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(from_fn_with_state(site.clone(), admit))
        .with_state(site)
}
/// A value of the query.
fn asked<'u>(uri: &'u Uri, name: &str) -> Option<&'u str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}
/// Why somebody is not let in, if so.
fn refusal(site: &DebugSite, uri: &Uri, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
    let own = |host: &str| ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| host == format!("{name}:{}", site.port));
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).filter(|host| hosts.next().is_none() && own(host));
    let Some(host) = host else { return Some((StatusCode::FORBIDDEN, "this page is reached at 127.0.0.1 alone\n")) };
    if uri.authority().is_some_and(|authority| authority.as_str() != host) {
        return Some((StatusCode::FORBIDDEN, "this page is reached at 127.0.0.1 alone\n"));
    }
    let same = |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| origin.strip_prefix("http://") == Some(host));
    if !headers.get_all(header::ORIGIN).iter().all(same) {
        return Some((StatusCode::FORBIDDEN, "another site asks: that is refused\n"));
    }
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| value.strip_prefix("Bearer "));
    let given = bearer.or_else(|| asked(uri, "token")).unwrap_or_default();
    let is_known = bool::from(given.as_bytes().ct_eq(site.token.as_bytes()));
    (!is_known).then_some((StatusCode::UNAUTHORIZED, "the token is missing or wrong: take the address that `adamant debug` printed\n"))
}
/// Lets in who may come in, and tells what comes out to be kept nowhere.
async fn admit(State(site): State<Arc<DebugSite>>, request: Request, next: Next) -> Response {
    let mut response = match refusal(&site, request.uri(), request.headers()) {
        Some(refused) => refused.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    response
}
fn typed(kind: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, kind)], body.into()).into_response()
}
fn document(value: &Value) -> Response {
    typed("application/json", value.to_string())
}
/// What could not be done, as the control protocol says it.
fn refused(failure: &Failure) -> Response {
    document(&json!({ "ok": false, "error": failure.to_string() }))
}
async fn show_page(State(site): State<Arc<DebugSite>>) -> Response {
    let Ok(nonce) = super::random() else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the system gives no random bytes\n").into_response();
    };
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    );
    let mut response = typed("text/html; charset=utf-8", page::html(&site.run, &site.panels, &nonce));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}
async fn show_metrics(State(site): State<Arc<DebugSite>>) -> Response {
    typed("text/plain; version=0.0.4; charset=utf-8", prometheus::text(&site.run, &site.feed.known()))
}
async fn show_state(State(site): State<Arc<DebugSite>>) -> Response {
    let known = site.feed.known();
    let record = &known.record;
    document(&json!({
        "run": adamant_train::folder::text_of(&site.run), "status": known.status, "step": record.last(0, "step"), "epoch": record.last(0, "epoch"),
        "timing": record.last(1, "step"), "incidents": record.count(2), "profiles": record.count(3), "unread": record.unread(),
    }))
}
async fn show_profile(State(site): State<Arc<DebugSite>>, uri: Uri) -> Response {
    let number = asked(&uri, "id").and_then(|id| id.parse().ok());
    let found = number.and_then(|number| site.feed.known().record.profile(number));
    match found {
        Some(line) => typed("application/json", line.to_string()),
        None => (StatusCode::NOT_FOUND, "there is no such recorded step any more\n").into_response(),
    }
}
async fn ask_doctor(State(site): State<Arc<DebugSite>>) -> Response {
    let Ok(_turn) = site.doctor.try_acquire() else {
        return refused(&Failure::Run("the doctor is still looking".into()));
    };
    let run = site.run.clone();
    match tokio::task::spawn_blocking(move || diagnose(&run)).await {
        Ok(Ok(diagnosis)) => document(&json!({ "ok": true, "diagnosis": diagnosis.to_json() })),
        Ok(Err(failure)) => refused(&failure),
        Err(_) => refused(&Failure::Run("the doctor has failed: `adamant doctor` says more".into())),
    }
}
async fn ask_run(State(site): State<Arc<DebugSite>>, body: Bytes) -> Response {
    match tokio::task::spawn_blocking(move || site.steering.ask(&body)).await {
        Ok(Ok(answer)) => document(&answer),
        Ok(Err(failure)) => refused(&failure),
        Err(_) => refused(&Failure::Run("the request has failed".into())),
    }
}
async fn stream_events(State(site): State<Arc<DebugSite>>) -> Response {
    match site.feed.open() {
        Some(PageStream { known, comes }) => Sse::new(EventStream { known: known.into(), comes }).keep_alive(KeepAlive::default()).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "too many pages are open\n").into_response(),
    }
}
/// What is known, then what comes; ends where the page does not keep up.
struct EventStream {
    known: VecDeque<Arc<PageEvent>>,
    comes: Receiver<Arc<PageEvent>>,
}
impl Stream for EventStream {
    type Item = Result<Event, Infallible>;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let written = |event: &PageEvent| Ok(Event::default().event(event.name).data(&event.data).retry(COMES_BACK));
        match self.known.pop_front() {
            Some(event) => Poll::Ready(Some(written(&event))),
            None => self.comes.poll_recv(context).map(|event| event.map(|event| written(&event))),
        }
    }
}
