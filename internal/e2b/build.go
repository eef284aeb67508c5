package e2b

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	space "github.com/space-platform/space"
	api "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	// maxBuilds bounds the builds that are remembered, buildsEach those of one API key; buildLife is for how long.
	maxBuilds, buildsEach = 1_000, 100
	buildLife             = 24 * time.Hour
	// maxBuildTime bounds the following of a build's log.
	maxBuildTime = 4 * time.Hour
	// maxLines bounds the lines of a log that are kept: the platform keeps as many. maxLog bounds their text, in bytes.
	maxLines, maxLog = 20_000, 4 << 20
	// linesLife is how long the lines are kept after the build's end. SDKs read them until then.
	linesLife = time.Hour
	// lastLines is how long the last lines of a build that has ended are waited for.
	lastLines = 5 * time.Second
	// maxUploads bounds the uploads of one build: its steps.
	maxUploads = 256
	// buildTags bounds the tags that a build gives, as the platform does.
	buildTags = 16
)

// build is one build of a template. An SDK makes it in three parts: it asks for it, uploads files, and starts it.
type build struct {
	owner  owner  // who asked: others aren't told of it
	id     string // a UUID
	began  time.Time
	create client.TemplateCreate

	mu       sync.Mutex
	uploads  map[string]string // their ids by the hash of their files
	starting bool              // the platform is being asked
	template string            // tpl_…; "" before it's started
	steps    []meaning         // the platform's, in order
	begun    int               // the newest of them whose beginning the log has told
	lines    []client.LogLine
	size     int           // bytes of their text
	cut      bool          // a line wasn't kept: none is any more
	reading  sync.Once     // begins to
	read     chan struct{} // closed when no more lines come
}

// builds are those that SDKs have asked for.
type builds struct {
	keep func(note) // writes down what changes; nil: nothing is

	mu   sync.Mutex
	byID map[string]*build
}

// buildNote is a build for a later life of this process. Its lines are read again.
type buildNote struct {
	ID       string                `json:"id"`
	Owner    []byte                `json:"owner"`
	Began    time.Time             `json:"began"`
	Create   client.TemplateCreate `json:"create"`
	Uploads  map[string]string     `json:"uploads,omitempty"`
	Template string                `json:"template,omitempty"`
	Steps    []meaning             `json:"steps,omitempty"`
}

func (n *build) note() note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return note{Build: &buildNote{ID: n.id, Owner: n.owner[:], Began: n.began, Create: n.create, Uploads: maps.Clone(n.uploads), Template: n.template, Steps: n.steps}}
}

// noted writes a build down, which nobody may hold.
func (b *builds) noted(n *build) {
	if b.keep != nil {
		b.keep(n.note())
	}
}

// notes are those of all builds that are remembered.
func (b *builds) notes() []note {
	b.mu.Lock()
	all := slices.Collect(maps.Values(b.byID))
	b.mu.Unlock()
	var out []note
	for _, n := range all {
		if time.Since(n.began) <= buildLife {
			out = append(out, n.note())
		}
	}
	return out
}

// recall takes up what an earlier life has noted.
func (b *builds) recall(m note) {
	if m.Build == nil || m.Build.Create.Name == nil || time.Since(m.Build.Began) > buildLife {
		return
	}
	n := &build{
		id: m.Build.ID, began: m.Build.Began, create: m.Build.Create, uploads: map[string]string{}, template: m.Build.Template, steps: m.Build.Steps,
		read: make(chan struct{}),
	}
	copy(n.owner[:], m.Build.Owner)
	maps.Copy(n.uploads, m.Build.Uploads)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byID == nil {
		b.byID = map[string]*build{}
	}
	if len(b.byID) < maxBuilds || b.byID[n.id] != nil {
		b.byID[n.id] = n
	}
}

func (b *builds) add(n *build) error {
	if err := b.insert(n); err != nil {
		return err
	}
	b.noted(n)
	return nil
}

func (b *builds) insert(n *build) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byID == nil {
		b.byID = map[string]*build{}
	}
	mine := 0
	for id, old := range b.byID {
		switch {
		case time.Since(old.began) > buildLife:
			delete(b.byID, id)
		case old.owner == n.owner:
			mine++
		}
	}
	if mine >= buildsEach || len(b.byID) >= maxBuilds {
		return refuse(http.StatusTooManyRequests, "the key has begun %d builds within a day, and all together %d: try again later", mine, len(b.byID))
	}
	b.byID[n.id] = n
	return nil
}

// get returns a key's build.
func (b *builds) get(key, id string) (*build, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.byID[id]
	if n == nil || n.owner != ownerOf(key) {
		return nil, refuse(http.StatusNotFound, "build %q isn't known here: begin it anew", space.Clip(id))
	}
	return n, nil
}

// latest returns a key's newest build of a name, whose files are uploaded.
func (b *builds) latest(key, name string) (*build, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out *build
	for _, n := range b.byID {
		if n.owner == ownerOf(key) && *n.create.Name == name && (out == nil || n.began.After(out.began)) {
			out = n
		}
	}
	if out == nil {
		return nil, refuse(http.StatusNotFound, "no build of template %q is known here: begin it anew", space.Clip(name))
	}
	return out, nil
}

// templateWord is what can be the name of a template, and a tag.
var templateWord = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// createTemplate begins a build. Nothing is built yet.
func (f *Facade) createTemplate(w http.ResponseWriter, r *request) error {
	var in struct {
		Name     string   `json:"name"`
		Alias    string   `json:"alias"`
		Tags     []string `json:"tags"`
		CPUCount *int     `json:"cpuCount"`
		MemoryMB *int     `json:"memoryMB"`
	}
	if err := r.read(&in); err != nil {
		return err
	}
	name, tag, tagged := strings.Cut(templateName(cmp.Or(in.Name, in.Alias)), ":")
	if tagged {
		in.Tags = append(in.Tags, tag)
	}
	tags := []string{}
	for _, t := range in.Tags {
		if t != defaultTag && !slices.Contains(tags, t) {
			tags = append(tags, t)
		}
		if !templateWord.MatchString(t) {
			return refuse(http.StatusBadRequest, "tags: %q must be up to 63 of a-z, 0-9, . _ -", space.Clip(t))
		}
	}
	switch {
	case len(tags) > buildTags:
		return refuse(http.StatusBadRequest, "tags: a build gives at most %d, and %d are wanted", buildTags, len(tags))
	case !templateWord.MatchString(name):
		return refuse(http.StatusBadRequest, "name is %q: it must be up to 63 of a-z, 0-9, . _ -", space.Clip(name))
	case in.CPUCount != nil && *in.CPUCount < 1:
		return refuse(http.StatusBadRequest, "cpuCount is %d: it must be 1 or more", *in.CPUCount)
	case in.MemoryMB != nil && (*in.MemoryMB < 128 || *in.MemoryMB%2 != 0):
		return refuse(http.StatusBadRequest, "memoryMB is %d: it must be even, and 128 or more", *in.MemoryMB)
	}
	// Who may build, and whether the platform is there, is better known before files are sent.
	if _, err := r.platform.Me(r.Context()); err != nil {
		return err
	}
	n := &build{
		owner: ownerOf(r.key), id: newUUID(), began: time.Now(), uploads: map[string]string{}, read: make(chan struct{}),
		create: client.TemplateCreate{Name: &name, Vcpus: in.CPUCount, MemoryMb: in.MemoryMB, Tags: &tags},
	}
	if err := f.builds.add(n); err != nil {
		return err
	}
	shown := tags
	if len(tags) == 0 {
		shown = []string{defaultTag}
	}
	answer(w, http.StatusAccepted, map[string]any{
		"templateID": name, "buildID": n.id, "public": false, "names": []string{name}, "aliases": []string{name}, "tags": shown,
	})
	return nil
}

// newUUID is a random UUID, version 4.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	return uuid(b)
}

func uuid(b [16]byte) string {
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// filesLink says where the files of a step go. The link has all that opens it: some SDKs send no key with the files.
func (f *Facade) filesLink(w http.ResponseWriter, r *request, name, hash string) error {
	n, err := f.builds.latest(r.key, templateName(name))
	if err != nil {
		return err
	}
	if err := n.roomForUpload(); err != nil {
		return err
	}
	u, err := r.platform.BeginUpload(r.Context())
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.uploads[hash] = u.Id
	n.mu.Unlock()
	f.builds.noted(n)
	link := strings.TrimSuffix(f.config.Endpoint, "/") + "/uploads/" + url.PathEscape(u.Id) + "?token=" + url.QueryEscape(u.Token)
	answer(w, http.StatusCreated, map[string]any{"present": false, "url": link})
	return nil
}

// roomForUpload refuses more uploads than a build has steps.
func (n *build) roomForUpload() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.uploads) >= maxUploads {
		return refuse(http.StatusBadRequest, "a build has at most %d uploads", maxUploads)
	}
	return nil
}

// putUpload takes the files of a step. The platform takes archives that aren't compressed.
func (f *Facade) putUpload(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("upload")
	if space.CheckID(space.PrefixUpload, id) != nil {
		fail(w, r, refuse(http.StatusNotFound, "there's no such upload"))
		return
	}
	c, err := f.platform("")
	if err != nil {
		fail(w, r, err)
		return
	}
	plain, err := gzip.NewReader(r.Body)
	if err != nil {
		fail(w, r, refuse(http.StatusBadRequest, "the files aren't a gzip-compressed archive"))
		return
	}
	read := &trackedReader{Reader: plain}
	err = c.SendUpload(r.Context(), f.config.Edge+"/v1/uploads/"+id, r.URL.Query().Get("token"), read)
	if err != nil && read.err != nil {
		err = refuse(http.StatusBadRequest, "the archive couldn't be read whole")
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// startBuild starts a build, and follows it.
func (f *Facade) startBuild(w http.ResponseWriter, r *request) error {
	var in buildOrder
	if err := r.read(&in); err != nil {
		return err
	}
	n, err := f.builds.get(r.key, r.PathValue("build"))
	if err != nil {
		return err
	}
	uploads, err := n.claim()
	if err != nil {
		return err
	}
	template, steps, err := r.orderBuild(in, n.create, uploads)
	n.started(template, steps)
	if err != nil {
		return err
	}
	f.builds.noted(n)
	n.follow(r.platform, template)
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// claim lets one caller start the build, until started is called, and returns its uploads.
func (n *build) claim() (uploads map[string]string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.starting || n.template != "" {
		return nil, refuse(http.StatusConflict, "the build was started already")
	}
	n.starting = true
	return maps.Clone(n.uploads), nil
}

// started ends a claim: with the template that is built, or "".
func (n *build) started(template string, steps []meaning) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.starting, n.template, n.steps = false, template, steps
}

// orderBuild has the platform build what an SDK orders, and returns the template and its steps.
func (r *request) orderBuild(in buildOrder, create client.TemplateCreate, uploads map[string]string) (template string, steps []meaning, err error) {
	if err := in.source(&create); err != nil {
		return "", nil, err
	}
	user, workdir, err := foundation(r.Context(), r.platform, create.Template)
	if err != nil {
		return "", nil, err
	}
	c, err := compile(in.Steps, user, workdir, uploads)
	if err != nil {
		return "", nil, err
	}
	force := in.Force
	for _, s := range in.Steps {
		force = force || s.Force
	}
	create.Steps, create.NoCache = &c.steps, &force
	if in.StartCmd != "" {
		create.StartCommand = &in.StartCmd
	}
	if in.ReadyCmd != "" {
		create.ReadyCheck = &in.ReadyCmd
	}
	op, err := r.platform.BeginCreateTemplate(r.Context(), create)
	if err != nil {
		return "", nil, err
	}
	if op.Template == nil {
		return "", nil, fmt.Errorf("begin a build: the answer names no template")
	}
	return op.Template.Id, c.means, nil
}

// foundation is the user and the directory with which a build's steps begin; no user if what is built upon doesn't say.
func foundation(ctx context.Context, c *client.Client, template *string) (user, workdir string, err error) {
	if template == nil {
		return "", "", nil
	}
	t, err := c.GetTemplate(ctx, *template)
	if is(err, space.CodeNotFound) {
		return "", "", refuse(http.StatusBadRequest, "there's no template %q to build upon", space.Clip(*template))
	}
	if err != nil {
		return "", "", err
	}
	if t.User == nil || *t.User == "" {
		return "", "", nil
	}
	name, _, _ := strings.Cut(*t.User, ":")
	workdir = "/home/" + name
	if name == root {
		workdir = "/root"
	}
	if t.Workdir != nil && *t.Workdir != "" {
		workdir = *t.Workdir
	}
	return *t.User, workdir, nil
}

// follow keeps the log of a build that was started until the build has ended, unless that is done already.
func (n *build) follow(c *client.Client, template string) {
	n.reading.Do(func() { go n.collect(c, template) })
}

func (n *build) collect(c *client.Client, template string) {
	defer n.ended()
	ctx, cancel := context.WithTimeout(context.Background(), maxBuildTime)
	defer cancel()
	for line, err := range c.FollowTemplateLogs(ctx, template) {
		if err != nil {
			return // the build has failed, or its log can't be read: its state says which
		}
		n.keep(line)
	}
}

// cutNotice is the last line of a log that is longer than what is kept.
const cutNotice = "The log goes on, and isn't kept here any more: `space template logs` shows it."

// keep appends a line, within the limits.
func (n *build) keep(line client.LogLine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var shown bool
	if line.Text, shown = n.shown(line); n.cut || !shown {
		return
	}
	if len(n.lines) >= maxLines-1 || n.size+len(line.Text) > maxLog-len(cutNotice) {
		n.cut, line.Text = true, cutNotice
	}
	n.lines, n.size = append(n.lines, line), n.size+len(line.Text)
}

// ended says that no more lines come, and drops them in time.
func (n *build) ended() {
	close(n.read)
	time.AfterFunc(linesLife, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.lines = nil
	})
}

// logEntry is one line of a log.
type logEntry struct {
	Timestamp time.Time `json:"timestamp"`
	Message   string    `json:"message"`
	Level     string    `json:"level"`
	Step      string    `json:"step,omitempty"`
}

// Names of the steps that have no number.
const (
	stepBase     = "base"
	stepFinalize = "finalize"
)

// stepName is an SDK's step, by the platform's: 0 for what is built upon.
func (n *build) stepName(step int) string {
	switch {
	case step < 1:
		return stepBase
	case step > len(n.steps):
		return stepFinalize
	case n.steps[step-1].Origin < 1: // what builds do for themselves before
		return stepBase
	}
	return strconv.Itoa(n.steps[step-1].Origin)
}

var (
	// ownStep finds the platform's number of a step, which begins a text.
	ownStep = regexp.MustCompile(`^step (\d+)(: | is as it was)`)
	// beginning is how the platform says what it does in a step, before anything else of that.
	beginning = regexp.MustCompile(`^(run|copy to) `)
)

// said is a text of the platform's with the number of the user's own step.
func (n *build) said(text string) string {
	m := ownStep.FindStringSubmatchIndex(text)
	if m == nil {
		return text
	}
	number, _ := strconv.Atoi(text[m[2]:m[3]]) // too large a one is none of the steps
	return "step " + n.stepName(number) + text[m[3]:]
}

// shown is a line of the platform's log as the SDK's user is shown it: what begins is said in the words of the user's steps, and what builds do for
// themselves isn't said at all. What a command prints stays as it is.
func (n *build) shown(l client.LogLine) (text string, shown bool) {
	if l.Step == nil || *l.Step < 1 || *l.Step > len(n.steps) {
		return n.said(l.Text), true
	}
	says := n.steps[*l.Step-1].Says
	switch {
	case n.begun < *l.Step && beginning.MatchString(l.Text):
		n.begun = *l.Step
		return says, says != ""
	case n.begun < *l.Step && ownStep.MatchString(l.Text):
		return n.said(l.Text), says != ""
	}
	return n.said(l.Text), true
}

// entries are the lines after the first ones.
func (n *build) entries(from int) []logEntry {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := []logEntry{}
	for i := max(from, 0); i < len(n.lines); i++ {
		l := n.lines[i]
		e := logEntry{Timestamp: l.At, Message: l.Text, Level: "info"}
		if l.Step != nil {
			e.Step = n.stepName(*l.Step)
		}
		out = append(out, e)
	}
	return out
}

// buildStatus answers with how far a build is.
func (f *Facade) buildStatus(w http.ResponseWriter, r *request, name, id string) error {
	n, err := f.builds.get(r.key, id)
	if err != nil {
		return err
	}
	n.mu.Lock()
	template := n.template
	n.mu.Unlock()
	out := map[string]any{"templateID": name, "buildID": id, "status": "waiting", "logs": []string{}, "logEntries": []logEntry{}}
	if template == "" {
		answer(w, http.StatusOK, out)
		return nil
	}
	n.follow(r.platform, template) // one that was started before this process was
	t, err := r.platform.GetTemplate(r.Context(), template)
	if err != nil {
		return err
	}
	if t.State != api.TemplateStateBuilding {
		n.awaitLines(r.Context())
	}
	offset, err := strconv.Atoi(r.URL.Query().Get("logsOffset"))
	if err != nil {
		offset = 0
	}
	entries := n.entries(offset)
	lines := []string{}
	for _, e := range entries {
		lines = append(lines, e.Message)
	}
	out["status"], out["logs"], out["logEntries"] = buildState(t.State), lines, entries
	if t.State == api.TemplateStateFailed {
		out["reason"] = n.reason(t)
	}
	answer(w, http.StatusOK, out)
	return nil
}

// awaitLines waits for the last lines of a build that has ended.
func (n *build) awaitLines(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastLines)
	defer cancel()
	select {
	case <-n.read:
	case <-ctx.Done():
	}
}

func buildState(s api.TemplateState) string {
	switch s {
	case api.TemplateStateReady:
		return "ready"
	case api.TemplateStateFailed:
		return "error"
	}
	return "building"
}

// reason says why a build failed, and at which of the SDK's steps.
func (n *build) reason(t client.Template) map[string]any {
	step, message := stepFinalize, "the build failed"
	if t.FailedStep != nil {
		step = n.stepName(*t.FailedStep)
	}
	if t.Error != nil && t.Error.Detail != nil {
		message = n.said(*t.Error.Detail)
	}
	return map[string]any{"message": message, "step": step, "logEntries": []logEntry{}}
}
