package edge

import (
	"errors"
	"log/slog"
	"net/http"

	space "github.com/space-platform/space"
)

// operation is one thing that the edge serves. A test compares the table with openapi.yaml.
type operation struct {
	accepts material // any of these opens it
	query   []string // the parameters that it takes
	body    bool     // it takes a body
	lasts   lasts
	do      func(*Edge, *answer, *request) error
}

// operations are the data plane by the pattern under which each is served.
var operations = map[string]operation{
	"GET /v1/sessions/{session}/attach":          {accepts: attachmentToken | sandboxToken, query: []string{"wake"}, lasts: streams, do: (*Edge).attach},
	"GET /v1/sessions/{session}/ws":              {accepts: attachmentToken | sandboxToken, query: []string{"from", "wake"}, lasts: streams, do: (*Edge).attachWebSocket},
	"POST /v1/sessions/{session}/stdin":          {accepts: attachmentToken | sandboxToken, query: []string{"offset", "close", "wake"}, body: true, lasts: streams, do: (*Edge).sendStdin},
	"POST /v1/sessions/{session}/signal":         {accepts: attachmentToken | sandboxToken, query: []string{"wake"}, body: true, do: (*Edge).signal},
	"POST /v1/sessions/{session}/resize":         {accepts: attachmentToken | sandboxToken, query: []string{"wake"}, body: true, do: (*Edge).resize},
	"POST /v1/sandboxes/{sandbox}/sessions":      {accepts: sandboxToken, body: true, lasts: streams, do: (*Edge).createSession},
	"GET /v1/sandboxes/{sandbox}/live-sessions":  {accepts: sandboxToken, do: (*Edge).listSessions},
	"GET /v1/sandboxes/{sandbox}/files/content":  {accepts: sandboxToken | signedURL, query: []string{"path", "user", "expires", "signature"}, lasts: transfers, do: (*Edge).readFile},
	"HEAD /v1/sandboxes/{sandbox}/files/content": {accepts: sandboxToken | signedURL, query: []string{"path", "user", "expires", "signature"}, do: (*Edge).headFile},
	"PUT /v1/sandboxes/{sandbox}/files/content":  {accepts: sandboxToken | signedURL, query: []string{"path", "user", "expires", "signature", "mode"}, body: true, lasts: transfers, do: (*Edge).writeFile},
	"PATCH /v1/sandboxes/{sandbox}/files":        {accepts: sandboxToken, query: []string{"path", "user"}, body: true, do: (*Edge).changeFile},
	"DELETE /v1/sandboxes/{sandbox}/files":       {accepts: sandboxToken, query: []string{"path", "user", "recursive"}, do: (*Edge).removeFile},
	"GET /v1/sandboxes/{sandbox}/files/stat":     {accepts: sandboxToken, query: []string{"path", "user"}, do: (*Edge).statFile},
	"GET /v1/sandboxes/{sandbox}/files/list":     {accepts: sandboxToken, query: []string{"path", "user", "depth"}, do: (*Edge).listFiles},
	"POST /v1/sandboxes/{sandbox}/files/mkdir":   {accepts: sandboxToken, query: []string{"user"}, body: true, do: (*Edge).makeDirectory},
	"POST /v1/sandboxes/{sandbox}/files/rename":  {accepts: sandboxToken, query: []string{"user"}, body: true, do: (*Edge).renameFile},
	"GET /v1/sandboxes/{sandbox}/files/watch":    {accepts: sandboxToken, query: []string{"path", "user", "recursive"}, lasts: streams, do: (*Edge).watchFiles},
	"GET /v1/sandboxes/{sandbox}/files/archive":  {accepts: sandboxToken, query: []string{"path", "user"}, lasts: transfers, do: (*Edge).readArchive},
	"PUT /v1/sandboxes/{sandbox}/files/archive":  {accepts: sandboxToken, query: []string{"path", "user"}, body: true, lasts: transfers, do: (*Edge).writeArchive},
	"PUT /v1/uploads/{upload}":                   {accepts: uploadToken, body: true, do: (*Edge).putUpload},
}

// request is a request that has shown a material and passed the checks that all have in common.
type request struct {
	kept bool // it reads what the sandbox has kept of its sessions, which needn't run

	*http.Request
	id       string // the operator's name for it
	material material
	token    string // "" of a signed URL
	query    query
	sandbox  string // from the path, as are the next two; "" where the path has none
	session  string
	upload   string
}

// serve reads a request and does it. Who shows no material learns nothing else.
func (e *Edge) serve(o operation, w *answer, r *http.Request) error {
	req := &request{Request: r, id: w.Header().Get(requestID)}
	var err error
	if req.material, req.token, err = readMaterial(r, o.accepts); err != nil {
		return err
	}
	for _, id := range []struct {
		of     space.Prefix
		name   string
		what   string
		target *string
	}{
		{space.PrefixSandbox, "sandbox", "sandbox", &req.sandbox},
		{space.PrefixSession, "session", "session", &req.session},
		{space.PrefixUpload, "upload", "upload", &req.upload},
	} {
		if *id.target = r.PathValue(id.name); *id.target != "" && space.CheckID(id.of, *id.target) != nil {
			return space.Errorf(space.CodeNotFound, "no such %s", id.what)
		}
	}
	if !o.body && r.ContentLength != 0 {
		return space.FieldErrorf("body", "this takes no body")
	}
	if err := checkEncoding(r.Header); o.body && err != nil {
		return err
	}
	if req.query, err = readQuery(r.URL.RawQuery, o.query); err != nil {
		return err
	}
	if _, err := req.query.expires(); err != nil { // whatever it was that opened
		return err
	}
	return e.guardedly(o, w, req)
}

// guardedly does a request for no longer than its material is good.
func (e *Edge) guardedly(o operation, w *answer, r *request) error {
	if o.lasts == briefly {
		return o.do(e, w, r)
	}
	ctx, stop, err := e.guard(w, r, o.lasts)
	if err != nil {
		return err
	}
	defer stop()
	r.Request = r.WithContext(ctx)
	err = o.do(e, w, r)
	if over := ended(ctx); err != nil && over != nil {
		return over // whatever it looked like from inside
	}
	return err
}

// handle is an operation as a handler: an error becomes a problem, or cuts the connection when the answer has begun already.
func (e *Edge) handle(o operation) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		w := newAnswer(rw, e.timing)
		err := e.serve(o, w, r)
		if err == nil {
			return
		}
		logFailure(r, err, w.begun)
		if w.begun {
			panic(http.ErrAbortHandler)
		}
		writeProblem(w, err)
	}
}

// logFailure tells the operator of a request that went wrong. The query isn't logged, since it may have a signature; and of an error that is the client's only its
// code, since its text repeats what the client named.
func logFailure(r *http.Request, err error, begun bool) {
	code := space.CodeOf(err)
	line := []any{"method", r.Method, "path", space.Clip(r.URL.Path), "begun", begun, "code", string(code)}
	if code.HTTPStatus() >= http.StatusInternalServerError {
		line = append(line, "err", err, "cause", errors.Unwrap(err))
	}
	slog.InfoContext(r.Context(), "a request went wrong", line...)
}
