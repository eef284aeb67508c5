package e2b

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	space "github.com/space-platform/space"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	defaultTimeout = 300             // seconds, of a sandbox whose creator doesn't say
	maxTimeout     = 365 * 24 * 3600 // seconds: the platform's longest lifetime
	maxPage        = 100             // sandboxes
	clientID       = "space"         // deprecated, and required
)

// reserved begins the names of metadata that is the facade's own. E2B's side doesn't see it.
const reserved = "e2b.internal/"

// What a sandbox is to become at its timeout is kept beside it, since a lifetime is over once it was carried out.
const (
	markTimeout = reserved + "on-timeout"  // of every sandbox that was made here: one of the words that follow
	markResume  = reserved + "auto-resume" // "true" or absent
)

// The words of markTimeout.
const (
	timeoutKill  = "kill"
	timeoutPause = "pause"
	timeoutStop  = "pause without memory"
)

// actions are the platform's for them.
var actions = map[string]api.LifetimeOnExpiry{
	timeoutKill: api.LifetimeOnExpiryDelete, timeoutPause: api.LifetimeOnExpirySuspend, timeoutStop: api.LifetimeOnExpiryStop,
}

// idle is for a sandbox that is resumed by what is done with it. Who does that has no key, and can give it no time: what ends its next life is that
// nothing is done with it for as long as its timeout was.
func idle(timeout int) *api.Idle {
	after := max(timeout, leastIdle)
	return &api.Idle{Action: api.IdleActionSuspend, AfterSeconds: &after}
}

// leastIdle is the shortest time without activity after which the platform suspends a sandbox, in seconds.
const leastIdle = 60

// newSandbox is what an SDK asks for. Of fields that were never served the presence is looked at.
type newSandbox struct {
	TemplateID      string `json:"templateID"`
	Timeout         *int   `json:"timeout"`
	AutoPause       bool   `json:"autoPause"`
	AutoPauseMemory *bool  `json:"autoPauseMemory"`
	AutoResume      *struct {
		Enabled bool `json:"enabled"`
	} `json:"autoResume"`
	Secure       *bool             `json:"secure"`
	Internet     *bool             `json:"allow_internet_access"`
	Network      map[string]any    `json:"network"`
	Metadata     map[string]string `json:"metadata"`
	EnvVars      map[string]string `json:"envVars"`
	MCP          map[string]any    `json:"mcp"`
	IAM          map[string]any    `json:"iam"`
	VolumeMounts []any             `json:"volumeMounts"`
}

// sandbox is the answer to what makes one, or leads to one.
type sandbox struct {
	TemplateID      string `json:"templateID"`
	SandboxID       string `json:"sandboxID"`
	ClientID        string `json:"clientID"`
	EnvdVersion     string `json:"envdVersion"`
	Alias           string `json:"alias,omitempty"`
	EnvdAccessToken string `json:"envdAccessToken"`
}

// listed is a sandbox in a list.
type listed struct {
	TemplateID  string            `json:"templateID"`
	Alias       string            `json:"alias,omitempty"`
	SandboxID   string            `json:"sandboxID"`
	ClientID    string            `json:"clientID"`
	StartedAt   time.Time         `json:"startedAt"`
	EndAt       time.Time         `json:"endAt"`
	CPUCount    int               `json:"cpuCount"`
	MemoryMB    int               `json:"memoryMB"`
	DiskSizeMB  int               `json:"diskSizeMB"`
	State       string            `json:"state"`
	EnvdVersion string            `json:"envdVersion"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// detail is a sandbox by itself.
type detail struct {
	listed
	EnvdAccessToken string     `json:"envdAccessToken"`
	Lifecycle       *lifecycle `json:"lifecycle,omitempty"`
}

type lifecycle struct {
	AutoResume bool   `json:"autoResume"`
	OnTimeout  string `json:"onTimeout"`
}

// The two states that E2B's API knows.
const (
	stateRunning = "running"
	statePaused  = "paused"
)

// running and paused are the platform's states in which a sandbox is what E2B calls so. A stopped one is one that was paused without its memory. What is
// about to be paused is leaving, which E2B calls running: paused is said of what is durable.
var (
	running = append([]client.SandboxState{
		api.SandboxStateCreating, api.SandboxStateRunning, api.SandboxStateStarting, api.SandboxStateResuming, api.SandboxStateRestoring,
	}, leaving...)
	leaving = []client.SandboxState{api.SandboxStatePausing, api.SandboxStateSuspending, api.SandboxStateStopping}
	paused  = []client.SandboxState{api.SandboxStatePaused, api.SandboxStateSuspended, api.SandboxStateStopped}
)

// never is the end of a sandbox that has none, which can be made over the platform's own API.
var never = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

func render(s client.Sandbox) listed {
	l := listed{
		TemplateID: s.Template, Alias: s.Template, SandboxID: publicID(s.Id), ClientID: clientID, StartedAt: s.CreatedAt, EndAt: never,
		CPUCount: s.Vcpus, MemoryMB: s.MemoryMb, DiskSizeMB: s.DiskMb, State: stateRunning, EnvdVersion: envdVersion, Metadata: map[string]string{},
	}
	if s.Lifetime != nil && s.Lifetime.Deadline != nil {
		l.EndAt = *s.Lifetime.Deadline
	}
	if slices.Contains(paused, s.State) {
		l.State = statePaused
	}
	for name, value := range s.Metadata {
		if !strings.HasPrefix(name, reserved) {
			l.Metadata[name] = value
		}
	}
	return l
}

// open is a sandbox with the token that opens it.
func (f *Facade) open(ctx context.Context, r *request, s client.Sandbox) (sandbox, error) {
	by := ownerOf(r.key)
	a, had := f.tokens.issuedTo(by, s.Id)
	if !had {
		var err error
		if a, err = f.issue(ctx, r, s.Id); err != nil {
			return sandbox{}, err
		}
		f.tokens.add(a, by)
	}
	return sandbox{
		TemplateID: s.Template, Alias: s.Template, SandboxID: publicID(s.Id), ClientID: clientID, EnvdVersion: envdVersion, EnvdAccessToken: a.String(),
	}, nil
}

// tokenName is that of the tokens that are issued here.
const tokenName = "e2b"

// issue issues a token. An API key gets the same one for a day, unless it was revoked. Where there are as many as a sandbox may have, the oldest one that was
// issued here ends.
func (f *Facade) issue(ctx context.Context, r *request, id string) (access, error) {
	t, err := r.platform.RepeatSandboxToken(ctx, id, tokenName, tokenLife, repeatKey(id, r.key))
	if is(err, space.CodeQuotaExceeded) {
		if err := r.revokeOldest(ctx, id); err != nil {
			return access{}, err
		}
		t, err = r.platform.RepeatSandboxToken(ctx, id, tokenName, tokenLife, repeatKey(id, r.key))
	}
	if err == nil && f.tokens.isVoid(access{id, t.Secret}) {
		t, err = r.platform.CreateSandboxToken(ctx, id, tokenName, tokenLife)
	}
	return access{id, t.Secret}, err
}

// revokeOldest revokes the oldest token of a sandbox that was issued here.
func (r *request) revokeOldest(ctx context.Context, id string) error {
	all, err := r.platform.ListSandboxTokens(ctx, id)
	if err != nil {
		return err
	}
	for _, t := range slices.Backward(all) { // they come from the newest
		if t.Name != nil && *t.Name == tokenName {
			return r.platform.RevokeSandboxToken(ctx, id, t.Id)
		}
	}
	return refuse(http.StatusTooManyRequests, "the sandbox has as many tokens as it may: revoke some of them")
}

// checkTimeout refuses a timeout beyond its limits; absent is the usual one.
func checkTimeout(seconds *int, least int) (int, error) {
	if seconds == nil {
		return defaultTimeout, nil
	}
	if *seconds < least || *seconds > maxTimeout {
		return 0, refuse(http.StatusBadRequest, "timeout is %d seconds: it must be %d to %d", *seconds, least, maxTimeout)
	}
	return *seconds, nil
}

// check refuses what the platform doesn't have, and what contradicts itself.
func (n *newSandbox) check() error {
	switch {
	case n.TemplateID == "":
		return refuse(http.StatusBadRequest, "templateID is required")
	case n.AutoPauseMemory != nil && !*n.AutoPauseMemory && (!n.AutoPause || n.resumes()):
		return refuse(http.StatusBadRequest, "autoPauseMemory false needs autoPause, and no autoResume")
	case n.Internet != nil && !*n.Internet:
		return nil // sandboxes have no network at all yet
	case len(n.Network) > 0:
		return unsupported("network options")
	case len(n.VolumeMounts) > 0:
		return unsupported("volumes")
	case len(n.IAM) > 0:
		return unsupported("iam tokens")
	}
	for name := range n.Metadata {
		if strings.HasPrefix(name, reserved) {
			return refuse(http.StatusBadRequest, "metadata: names that begin with %q are the platform's own", reserved)
		}
	}
	return nil
}

// onTimeout is what the sandbox is to become.
func (n *newSandbox) onTimeout() string {
	switch {
	case !n.AutoPause:
		return timeoutKill
	case n.AutoPauseMemory != nil && !*n.AutoPauseMemory:
		return timeoutStop
	}
	return timeoutPause
}

func (n *newSandbox) resumes() bool { return n.AutoResume != nil && n.AutoResume.Enabled }

func (f *Facade) createSandbox(w http.ResponseWriter, r *request) error {
	var in newSandbox
	if err := r.read(&in); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	timeout, err := checkTimeout(in.Timeout, 1)
	if err != nil {
		return err
	}
	out, err := f.create(r, in.order(timeout))
	if err != nil {
		return err
	}
	answer(w, http.StatusCreated, out)
	return nil
}

// create makes a sandbox and, while it comes up, its token. One that doesn't come up, or whose maker has gone meanwhile, is deleted: nobody has its id.
func (f *Facade) create(r *request, in client.SandboxCreate) (sandbox, error) {
	op, err := r.begin(in)
	if err != nil {
		return sandbox{}, err
	}
	var out sandbox
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(func() (err error) { out, err = f.open(ctx, r, *op.Sandbox); return err })
	g.Go(func() error { _, err := r.platform.Await(ctx, op); return err })
	if err := g.Wait(); err != nil {
		ctx, cancel := detached(r.Context())
		defer cancel()
		if err := r.platform.DeleteSandbox(ctx, op.Sandbox.Id); err != nil {
			slog.WarnContext(ctx, "a sandbox that nobody has stays until its time is over", "sandbox", op.Sandbox.Id, "err", err)
		}
		return sandbox{}, err
	}
	return out, nil
}

// order is the platform's request for a new sandbox.
func (n *newSandbox) order(timeout int) client.SandboxCreate {
	metadata := client.Metadata{markTimeout: n.onTimeout()}
	for name, value := range n.Metadata {
		metadata[name] = value
	}
	resumes := n.resumes()
	lifecycle := &api.Lifecycle{AutoWake: &resumes, Idle: &api.Idle{Action: api.IdleActionNone}}
	if resumes {
		metadata[markResume], lifecycle.Idle = "true", idle(timeout)
	}
	env := client.Environment{"E2B_SANDBOX": "true", "E2B_TEMPLATE_ID": n.TemplateID}
	for name, value := range n.EnvVars {
		env[name] = value
	}
	return client.SandboxCreate{
		Template: templateName(n.TemplateID), Metadata: &metadata, Env: &env, Lifecycle: lifecycle,
		Lifetime: &client.Lifetime{Seconds: &timeout, OnExpiry: actions[n.onTimeout()]},
	}
}

// templateName is the platform's name of a template as SDKs write it: a namespace is the project's own, and the tag default is none.
func templateName(id string) string {
	if i := strings.LastIndexByte(id, '/'); i >= 0 {
		id = id[i+1:]
	}
	return strings.TrimSuffix(id, ":default")
}

// living returns the sandbox of a call that is there for E2B's side: one that is deleted, failed or lost is not.
func (r *request) living(ctx context.Context) (client.Sandbox, error) {
	id, err := r.sandbox()
	if err != nil {
		return client.Sandbox{}, err
	}
	s, err := r.platform.GetSandbox(ctx, id)
	switch {
	case is(err, space.CodeNotFound), err == nil && s.State == api.SandboxStateDeleted:
		return s, noSandbox(r.PathValue("id"))
	case err != nil:
		return s, err
	case s.State == api.SandboxStateDeleting:
		return s, refuse(http.StatusConflict, "sandbox %s is being killed", publicID(id))
	case s.State == api.SandboxStateLost, s.State == api.SandboxStateFailed:
		return s, refuse(http.StatusNotFound, "sandbox %s is %s: %s", publicID(id), s.State, why(s))
	}
	return s, nil
}

// why is what the platform says of a sandbox that failed.
func why(s client.Sandbox) string {
	if s.Error != nil && s.Error.Detail != nil {
		return *s.Error.Detail
	}
	return "kill it, and create another one"
}

func (f *Facade) getSandbox(w http.ResponseWriter, r *request) error {
	s, err := r.living(r.Context())
	if err != nil {
		return notFoundWhileKilled(err, r)
	}
	out, err := f.open(r.Context(), r, s)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, detail{listed: render(s), EnvdAccessToken: out.EnvdAccessToken, Lifecycle: &lifecycle{
		AutoResume: s.Metadata[markResume] == "true", OnTimeout: onTimeout(s),
	}})
	return nil
}

// notFoundWhileKilled is for calls that look at a sandbox: one that is being killed is none any more.
func notFoundWhileKilled(err error, r *request) error {
	if p := understand(r.Context(), err); p.Code == http.StatusConflict {
		return noSandbox(r.PathValue("id"))
	}
	return err
}

func onTimeout(s client.Sandbox) string {
	if mark := s.Metadata[markTimeout]; mark == timeoutPause || mark == timeoutStop {
		return "pause"
	}
	return "kill"
}

// killSandbox answers when nothing of the sandbox is left to be reached.
func (f *Facade) killSandbox(w http.ResponseWriter, r *request) error {
	id, err := r.sandbox()
	if err != nil {
		return err
	}
	s, err := r.platform.GetSandbox(r.Context(), id)
	if is(err, space.CodeNotFound) || err == nil && (s.State == api.SandboxStateDeleted || s.State == api.SandboxStateDeleting) {
		return noSandbox(r.PathValue("id"))
	}
	if err != nil {
		return err
	}
	if err := r.platform.DeleteSandbox(r.Context(), id); err != nil {
		return err
	}
	f.tokens.forget(id)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (f *Facade) connectSandbox(w http.ResponseWriter, r *request) error {
	var in struct {
		Timeout *int  `json:"timeout"`
		Memory  *bool `json:"memory"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	timeout, err := checkTimeout(in.Timeout, 1)
	if err != nil {
		return err
	}
	s, err := r.living(r.Context())
	if err != nil {
		return err
	}
	status := http.StatusOK
	if slices.Contains(paused, s.State) || slices.Contains(leaving, s.State) {
		status = http.StatusCreated
		if s, err = f.wake(r.Context(), r, s, timeout); err != nil {
			return err
		}
	} else if err := f.extend(r.Context(), r, s, timeout); err != nil {
		return err
	}
	out, err := f.open(r.Context(), r, s)
	if err != nil {
		return err
	}
	answer(w, status, out)
	return nil
}

// wake brings a paused sandbox back, with a new deadline, which it gets when it runs: one that can't be brought back has none.
func (f *Facade) wake(ctx context.Context, r *request, s client.Sandbox, timeout int) (client.Sandbox, error) {
	until, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	for {
		_, err := r.platform.WakeSandbox(ctx, s.Id)
		if err == nil {
			s.Lifetime = nil // what it was before the pause says nothing
			return s, f.begin(ctx, r, s, timeout)
		}
		if !is(err, space.CodeConflict) {
			return s, err
		}
		select { // it is just being paused, at its timeout perhaps
		case <-time.After(leavePoll):
		case <-until.Done():
			return s, err
		}
	}
}

// begin gives a sandbox that was woken its deadline, though its client may have gone: without one it would run on.
func (f *Facade) begin(ctx context.Context, r *request, s client.Sandbox, timeout int) error {
	err := f.extend(ctx, r, s, timeout)
	if err == nil {
		return nil
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	if err = f.extend(ctx, r, s, timeout); err != nil {
		slog.ErrorContext(ctx, "a sandbox that was woken may have no deadline", "sandbox", s.Id, "err", err)
	}
	return err
}

// A sandbox that is about to be paused is waited for, for so long, and looked at so often.
const (
	leaveTime = time.Minute
	leavePoll = 100 * time.Millisecond
)

// live gives a sandbox a time from now on.
func (f *Facade) live(ctx context.Context, r *request, s client.Sandbox, timeout int) (client.Sandbox, error) {
	change := client.SandboxUpdate{Lifetime: &client.Lifetime{Seconds: &timeout, OnExpiry: action(s)}}
	if s.Metadata[markResume] != "" {
		change.Lifecycle = &api.Lifecycle{Idle: idle(timeout)}
	}
	return r.platform.UpdateSandbox(ctx, s.Id, change)
}

// action is what the platform does with a sandbox at its timeout.
func action(s client.Sandbox) api.LifetimeOnExpiry {
	if a, ok := actions[s.Metadata[markTimeout]]; ok {
		return a
	}
	return api.LifetimeOnExpiryDelete
}

// turnSeed spreads sandboxes over turns.
var turnSeed = maphash.MakeSeed()

// extend puts a deadline off, and never brings it nearer, whoever else does the same.
func (f *Facade) extend(ctx context.Context, r *request, s client.Sandbox, timeout int) error {
	if !endsWithin(s, timeout) {
		return nil
	}
	turn := &f.turns[maphash.String(turnSeed, s.Id)%uint64(len(f.turns))]
	turn.Lock()
	defer turn.Unlock()
	now, err := r.platform.GetSandbox(ctx, s.Id)
	if err != nil || !endsWithin(now, timeout) {
		return err
	}
	_, err = f.live(ctx, r, now, timeout)
	return err
}

// endsWithin tells whether a sandbox's time is over before that long from now. One that was made elsewhere to live on has no end.
func endsWithin(s client.Sandbox, timeout int) bool {
	if s.Lifetime == nil || s.Lifetime.Deadline == nil {
		return s.Metadata[markTimeout] != ""
	}
	return time.Now().Add(time.Duration(timeout) * time.Second).After(*s.Lifetime.Deadline)
}

// resumeSandbox is how SDKs before connect brought a sandbox back.
func (f *Facade) resumeSandbox(w http.ResponseWriter, r *request) error {
	var in struct {
		Timeout *int `json:"timeout"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	timeout, err := checkTimeout(in.Timeout, 1)
	if err != nil {
		return err
	}
	s, err := r.living(r.Context())
	if err != nil {
		return err
	}
	if !slices.Contains(paused, s.State) && !slices.Contains(leaving, s.State) {
		return refuse(http.StatusConflict, "sandbox %s is running already", publicID(s.Id))
	}
	if s, err = f.wake(r.Context(), r, s, timeout); err != nil {
		return err
	}
	out, err := f.open(r.Context(), r, s)
	if err != nil {
		return err
	}
	answer(w, http.StatusCreated, out)
	return nil
}

// setTimeout moves the deadline, also nearer; 0 ends the sandbox now.
func (f *Facade) setTimeout(w http.ResponseWriter, r *request) error {
	var in struct {
		Timeout *int `json:"timeout"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	if in.Timeout == nil {
		return refuse(http.StatusBadRequest, "timeout is required")
	}
	timeout, err := checkTimeout(in.Timeout, 0)
	if err != nil {
		return err
	}
	s, err := r.living(r.Context())
	if err != nil {
		return notFoundWhileKilled(err, r)
	}
	if timeout == 0 {
		err = f.end(r, s)
	} else {
		_, err = f.live(r.Context(), r, s, timeout)
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// end does with a sandbox what its timeout would.
func (f *Facade) end(r *request, s client.Sandbox) error {
	switch s.Metadata[markTimeout] {
	case timeoutPause:
		return f.pause(r, s, true)
	case timeoutStop:
		return f.pause(r, s, false)
	}
	return r.platform.DeleteSandbox(r.Context(), s.Id)
}

// refreshSandbox is how SDKs before connect put a deadline off.
func (f *Facade) refreshSandbox(w http.ResponseWriter, r *request) error {
	var in struct {
		Duration *int `json:"duration"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	duration, err := checkTimeout(in.Duration, 1)
	if err != nil {
		return err
	}
	s, err := r.living(r.Context())
	if err != nil {
		return notFoundWhileKilled(err, r)
	}
	if err := f.extend(r.Context(), r, s, duration); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// listRunning is the list of old SDKs: all that run, on one page.
func (f *Facade) listRunning(w http.ResponseWriter, r *request) error {
	filter, err := listFilter(r.URL.Query())
	if err != nil {
		return err
	}
	filter.States = running
	out := []listed{}
	for s, err := range r.platform.ListSandboxes(r.Context(), filter) {
		if err != nil {
			return err
		}
		out = append(out, render(s))
	}
	answer(w, http.StatusOK, out)
	return nil
}

func (f *Facade) listSandboxes(w http.ResponseWriter, r *request) error {
	q := r.URL.Query()
	filter, err := listFilter(q)
	if err != nil {
		return err
	}
	limit := maxPage
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return refuse(http.StatusBadRequest, "limit is %q: it must be 1 to %d", space.Clip(text), maxPage)
		}
	}
	items, next, err := r.platform.ListSandboxPage(r.Context(), filter, q.Get("nextToken"), limit)
	if is(err, space.CodeInvalid) {
		return refuse(http.StatusBadRequest, "nextToken: %s", understand(r.Context(), err).Message)
	}
	if err != nil {
		return err
	}
	out := []listed{}
	for _, s := range items {
		out = append(out, render(s))
	}
	if next != "" {
		w.Header().Set("X-Next-Token", next)
	}
	answer(w, http.StatusOK, out)
	return nil
}

// listFilter reads which sandboxes are asked for.
func listFilter(q url.Values) (client.SandboxFilter, error) {
	f := client.SandboxFilter{}
	for _, name := range []string{"startedAfter", "template"} {
		if q.Get(name) != "" {
			return f, unsupported("lists by " + name)
		}
	}
	if order := q.Get("order"); order != "" && order != "desc" {
		return f, unsupported("lists in another order than from the newest")
	}
	for _, word := range words(q["state"]) {
		switch word {
		case stateRunning:
			f.States = append(f.States, running...)
		case statePaused:
			f.States = append(f.States, paused...)
		default:
			return f, refuse(http.StatusBadRequest, "state is %q: it must be %s or %s", space.Clip(word), stateRunning, statePaused)
		}
	}
	if f.States == nil {
		f.States = append(append(f.States, running...), paused...)
	}
	f.States = slices.Compact(slices.Sorted(slices.Values(f.States)))
	if text := q.Get("metadata"); text != "" {
		var err error
		if f.Metadata, err = metadataFilter(text); err != nil {
			return f, err
		}
	}
	return f, nil
}

// words reads a list that is given by commas, by repetition, or both.
func words(values []string) []string {
	var out []string
	for _, v := range values {
		for word := range strings.SplitSeq(v, ",") {
			if word != "" {
				out = append(out, word)
			}
		}
	}
	return out
}

// metadataFilter reads a filter by metadata, which is a form whose names and values were percent-encoded before.
func metadataFilter(text string) (map[string]string, error) {
	form, err := url.ParseQuery(text)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "metadata: %v", err)
	}
	out := map[string]string{}
	for name, values := range form {
		plain, err := url.QueryUnescape(name)
		value, errValue := url.QueryUnescape(values[0])
		if err != nil || errValue != nil || len(values) != 1 {
			return nil, refuse(http.StatusBadRequest, "metadata: %q can't be read", space.Clip(text))
		}
		out[plain] = value
	}
	return out, nil
}

// metric is what a sandbox uses, at one time.
type metric struct {
	Timestamp     time.Time `json:"timestamp"`
	TimestampUnix int64     `json:"timestampUnix"`
	CPUCount      int       `json:"cpuCount"`
	CPUUsedPct    float64   `json:"cpuUsedPct"`
	MemUsed       int64     `json:"memUsed"`
	MemTotal      int64     `json:"memTotal"`
	MemCache      int64     `json:"memCache"`
	DiskUsed      int64     `json:"diskUsed"`
	DiskTotal     int64     `json:"diskTotal"`
}

// getMetrics answers with the newest figures, which are all that the platform keeps; with none while there are none.
func (f *Facade) getMetrics(w http.ResponseWriter, r *request) error {
	s, err := r.living(r.Context())
	if err != nil {
		return notFoundWhileKilled(err, r)
	}
	out := []metric{}
	m, err := r.platform.Metrics(r.Context(), s.Id)
	switch {
	case is(err, space.CodeConflict, space.CodeUnavailable):
	case err != nil:
		return err
	case m.Guest != nil && within(m.At, r.URL.Query()):
		out = append(out, renderMetric(s, m))
	}
	answer(w, http.StatusOK, out)
	return nil
}

func renderMetric(s client.Sandbox, m client.Metrics) metric {
	out := metric{
		Timestamp: m.At, TimestampUnix: m.At.Unix(), CPUCount: s.Vcpus, MemUsed: m.Guest.MemoryUsedBytes, MemTotal: m.Guest.MemoryTotalBytes,
		DiskUsed: m.Guest.DiskUsedBytes, DiskTotal: m.Guest.DiskTotalBytes,
	}
	if m.CpuPercent != nil && s.Vcpus > 0 {
		out.CPUUsedPct = *m.CpuPercent / float64(s.Vcpus)
	}
	return out
}

// within tells whether a time is between start and end, in seconds since 1970, as far as they're given.
func within(at time.Time, q url.Values) bool {
	start, errStart := strconv.ParseInt(q.Get("start"), 10, 64)
	end, errEnd := strconv.ParseInt(q.Get("end"), 10, 64)
	return (errStart != nil || at.Unix() >= start) && (errEnd != nil || at.Unix() <= end)
}
