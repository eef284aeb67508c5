package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	api "github.com/space-platform/space/api/gen/http"
)

// FileEntry is a file, directory or link in a sandbox.
type FileEntry = api.FileEntry

// FileChange is what ChangeFile changes.
type FileChange = api.FileChange

// FileOption says as whom, or how, a file is used.
type FileOption func(url.Values)

// AsUser does it with the rights of a user of the guest, instead of the template's default user.
func AsUser(name string) FileOption {
	return func(q url.Values) {
		if name != "" {
			q.Set("user", name)
		}
	}
}

// WithMode sets the permission bits, in octal, for example "0755". Without it a file that is replaced keeps its own, and a new one has 0644.
func WithMode(octal string) FileOption { return func(q url.Values) { q.Set("mode", octal) } }

func at(path string, options []FileOption) url.Values {
	q := url.Values{}
	if path != "" {
		q.Set("path", path)
	}
	for _, o := range options {
		o(q)
	}
	return q
}

// ReadFile returns a file's bytes from an offset on. The caller closes the reader; an error from it means that the file wasn't read whole.
func (p *Plane) ReadFile(ctx context.Context, path string, offset int64, options ...FileOption) (io.ReadCloser, error) {
	var part string
	if offset > 0 {
		part = fmt.Sprintf("bytes=%d-", offset)
	}
	return p.read(ctx, path, part, options)
}

// ReadFileRange returns length bytes of a file from an offset on, fewer where the file ends before. The caller closes the reader; an error from
// it means that they didn't all come. Of an offset at or beyond the file's end the error's code is range_unsatisfiable.
func (p *Plane) ReadFileRange(ctx context.Context, path string, offset, length int64, options ...FileOption) (io.ReadCloser, error) {
	if offset < 0 || length <= 0 || length > math.MaxInt64-offset {
		return nil, fmt.Errorf("read %s: %d bytes from %d on are no range", path, length, offset)
	}
	return p.read(ctx, path, fmt.Sprintf("bytes=%d-%d", offset, offset+length-1), options)
}

// read reads the part of a file that a Range header names, all of it without one.
func (p *Plane) read(ctx context.Context, path, part string, options []FileOption) (io.ReadCloser, error) {
	c := call{method: http.MethodGet, path: p.files("/content"), query: at(path, options)}
	if part != "" {
		c.header = http.Header{"Range": {part}}
	}
	resp, err := p.do(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return resp.Body, nil
}

// FileContent is a file's bytes as the edge sends them, with a header that says how long they are and of when. Of the caller's header Range, If-Range,
// If-None-Match and If-Modified-Since are heeded; an answer that says no more than that nothing has changed is an *Error with the status 304. The
// caller closes the body; an error from it means that they didn't all come.
func (p *Plane) FileContent(ctx context.Context, path string, header http.Header, options ...FileOption) (*http.Response, error) {
	c := call{method: http.MethodGet, path: p.files("/content"), query: at(path, options), header: http.Header{}}
	for _, name := range []string{"Range", "If-Range", "If-None-Match", "If-Modified-Since"} {
		if v := header.Values(name); len(v) > 0 {
			c.header[name] = v
		}
	}
	resp, err := p.do(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return resp, nil
}

// WriteFile writes all of r to a file, which is replaced whole or stays as it was. When it returns the file is on the sandbox's disk.
func (p *Plane) WriteFile(ctx context.Context, path string, r io.Reader, options ...FileOption) (FileEntry, error) {
	return p.put(ctx, "write "+path, p.files("/content"), "application/octet-stream", at(path, options), r)
}

func (p *Plane) put(ctx context.Context, doing, path, contentType string, query url.Values, r io.Reader) (FileEntry, error) {
	resp, err := p.do(ctx, call{method: http.MethodPut, path: path, query: query, header: http.Header{"Content-Type": {contentType}}, body: r})
	if err != nil {
		return FileEntry{}, fmt.Errorf("%s: %w", doing, err)
	}
	return decode[FileEntry](resp, nil)
}

// StatFile returns what is at a path; of a symbolic link, the link itself.
func (p *Plane) StatFile(ctx context.Context, path string, options ...FileOption) (FileEntry, error) {
	e, err := exchange[FileEntry](ctx, p, http.MethodGet, p.files("/stat"), at(path, options), nil)
	if err != nil {
		return e, fmt.Errorf("look at %s: %w", path, err)
	}
	return e, nil
}

// ListFiles lists a directory down to a depth, 1 for the directory alone. truncated tells that there is more than 10,000 entries.
func (p *Plane) ListFiles(ctx context.Context, path string, depth int, options ...FileOption) (entries []FileEntry, truncated bool, err error) {
	q := at(path, options)
	q.Set("depth", strconv.Itoa(depth))
	l, err := exchange[api.FileList](ctx, p, http.MethodGet, p.files("/list"), q, nil)
	if err != nil {
		return nil, false, fmt.Errorf("list %s: %w", path, err)
	}
	return l.Entries, l.Truncated, nil
}

// MakeDirectory makes a directory and its parents; one that exists is fine.
func (p *Plane) MakeDirectory(ctx context.Context, path string, options ...FileOption) (FileEntry, error) {
	e, err := exchange[FileEntry](ctx, p, http.MethodPost, p.files("/mkdir"), at("", options), api.DirectoryCreate{Path: path})
	if err != nil {
		return e, fmt.Errorf("make directory %s: %w", path, err)
	}
	return e, nil
}

// RenameFile renames a file or directory; a file in its way is replaced.
func (p *Plane) RenameFile(ctx context.Context, from, to string, options ...FileOption) (FileEntry, error) {
	e, err := exchange[FileEntry](ctx, p, http.MethodPost, p.files("/rename"), at("", options), api.FileRename{From: from, To: to})
	if err != nil {
		return e, fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	return e, nil
}

// RemoveFile removes a file, a link or a directory; with recursive, also one that isn't empty.
func (p *Plane) RemoveFile(ctx context.Context, path string, recursive bool, options ...FileOption) error {
	q := at(path, options)
	if recursive {
		q.Set("recursive", "true")
	}
	if _, err := exchange[json.RawMessage](ctx, p, http.MethodDelete, p.files(""), q, nil); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// ChangeFile changes the mode or the owner of a file or directory.
func (p *Plane) ChangeFile(ctx context.Context, path string, change FileChange, options ...FileOption) (FileEntry, error) {
	e, err := exchange[FileEntry](ctx, p, http.MethodPatch, p.files(""), at(path, options), change)
	if err != nil {
		return e, fmt.Errorf("change %s: %w", path, err)
	}
	return e, nil
}

// ReadArchive returns a directory's contents as a tar archive. The caller closes the reader; an error from it means that it isn't whole.
func (p *Plane) ReadArchive(ctx context.Context, path string, options ...FileOption) (io.ReadCloser, error) {
	resp, err := p.do(ctx, call{method: http.MethodGet, path: p.files("/archive"), query: at(path, options)})
	if err != nil {
		return nil, fmt.Errorf("read directory %s: %w", path, err)
	}
	return resp.Body, nil
}

// WriteArchive unpacks a tar archive into a directory, which is made if it's missing.
func (p *Plane) WriteArchive(ctx context.Context, path string, r io.Reader, options ...FileOption) error {
	resp, err := p.do(ctx, call{method: http.MethodPut, path: p.files("/archive"), query: at(path, options),
		header: http.Header{"Content-Type": {"application/x-tar"}}, body: r})
	if err != nil {
		return fmt.Errorf("write directory %s: %w", path, err)
	}
	_, err = decode[api.ArchiveUnpacked](resp, nil)
	return err
}

// FileEvent is a change in a watched directory: ready (from now on nothing is missed), create, write, remove, rename, chmod, or overflow
// (events were lost: look at everything again).
type FileEvent struct {
	Kind string
	Path string
}

// reasonTokenEnded is why a stream ended whose token was revoked or has expired.
const reasonTokenEnded = "token_ended"

// WatchFiles watches a file or directory until the context ends or the loop is left. A watch that breaks yields an error: begin again
// and look at everything. One whose token was revoked or has expired ends with the code unauthenticated; a plane that issues its own tokens
// issues one for each watch, for a day.
func (p *Plane) WatchFiles(ctx context.Context, path string, recursive bool, options ...FileOption) iter.Seq2[FileEvent, error] {
	return func(yield func(FileEvent, error) bool) {
		if err := p.watch(ctx, path, recursive, options, func(e FileEvent) bool { return yield(e, nil) }); err != nil {
			yield(FileEvent{}, fmt.Errorf("watch %s: %w", path, err))
		}
	}
}

func (p *Plane) watch(ctx context.Context, path string, recursive bool, options []FileOption, yield func(FileEvent) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := at(path, options)
	if recursive {
		q.Set("recursive", "true")
	}
	token, back, err := p.pass.lend(ctx, watchLife)
	if err != nil {
		return err
	}
	defer back()
	resp, err := p.doWith(ctx, token, call{method: http.MethodGet, path: p.files("/watch"), query: q, header: http.Header{"Accept": {"text/event-stream"}}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	silence := time.AfterFunc(attachSilence, cancel)
	defer silence.Stop()
	m := newMessages(alive{resp.Body, silence})
	defer m.close()
	for {
		raw, err := m.next()
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if raw.event == "lost" || raw.event == "error" {
			return ended(raw.data)
		}
		var data struct {
			Path   string `json:"path"`
			Reason string `json:"reason"`
		}
		if err := json.Unmarshal(raw.data, &data); err != nil {
			return fmt.Errorf("read a %s event: %w", clip(raw.event), err)
		}
		switch {
		case raw.event == "ended" && data.Reason == reasonTokenEnded:
			return &Error{Code: "unauthenticated", Detail: "the token with which the watch was opened was revoked or has expired"}
		case raw.event == "ended":
			return &Error{Code: "unavailable", Detail: "the platform ended the watch: begin again"}
		}
		if !yield(FileEvent{Kind: raw.event, Path: data.Path}) {
			return nil
		}
	}
}

// ended reads the problem with which a watch ended.
func ended(data []byte) error {
	e, err := lost(data)
	if err != nil {
		return err
	}
	return e
}
