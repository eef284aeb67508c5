package cli

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// templateStep is a step that a flag asks for; a copy still has to be uploaded.
type templateStep struct {
	client.TemplateStep
	from, to, owner string // of a copy
}

// templateSteps are what the flags ask for, in the order in which they stand.
type templateSteps struct {
	list    []templateStep
	workdir string // after the last of them; "": the source's
}

// flag makes a flag of which each use is another step.
func (s *templateSteps) flag(kind string, read func(string) (templateStep, error)) *stepFlag {
	return &stepFlag{kind: kind, set: func(value string) error {
		step, err := read(value)
		if err == nil {
			s.list = append(s.list, step)
		}
		return err
	}}
}

// stepFlag is a flag whose place among others means something.
type stepFlag struct {
	kind string
	set  func(string) error
}

// String, Set and Type make it a flag.
func (f *stepFlag) String() string { return "" }

// Set adds a step.
func (f *stepFlag) Set(value string) error { return f.set(value) }

// Type is shown in help texts.
func (f *stepFlag) Type() string { return f.kind }

func runStep(command string) (templateStep, error) {
	return templateStep{TemplateStep: client.TemplateStep{Run: &command}}, nil
}

func userStep(name string) (templateStep, error) {
	return templateStep{TemplateStep: client.TemplateStep{User: &name}}, nil
}

func envStep(pair string) (templateStep, error) {
	name, value, ok := strings.Cut(pair, "=")
	if !ok || name == "" {
		return templateStep{}, fmt.Errorf("want NAME=VALUE")
	}
	return templateStep{TemplateStep: client.TemplateStep{Env: &gen.Environment{name: value}}}, nil
}

func (s *templateSteps) workdirStep(dir string) (templateStep, error) {
	dir, err := s.absolute(dir)
	s.workdir = dir
	return templateStep{TemplateStep: client.TemplateStep{Workdir: &dir}}, err
}

// copyStep reads SRC:DST or SRC:DST:OWNER.
func (s *templateSteps) copyStep(value string) (templateStep, error) {
	from, rest, _ := strings.Cut(value, ":")
	to, owner, _ := strings.Cut(rest, ":")
	if from == "" || to == "" {
		return templateStep{}, fmt.Errorf("want SRC:DST, or SRC:DST:OWNER")
	}
	abs, err := s.absolute(to)
	if strings.HasSuffix(to, "/") && abs != "/" {
		abs += "/" // a file keeps its name in it
	}
	return templateStep{from: from, to: abs, owner: owner}, err
}

// absolute is a path as the steps before it have it.
func (s *templateSteps) absolute(file string) (string, error) {
	if !path.IsAbs(file) && s.workdir == "" {
		return "", fmt.Errorf("%s is relative: write an absolute path, or --workdir before it", file)
	}
	if path.IsAbs(file) {
		return path.Clean(file), nil
	}
	return path.Join(s.workdir, file), nil
}

// addTo appends the steps to a definition, with copies uploaded. What the definition says for sessions is said anew by a later flag.
func (s *templateSteps) addTo(ctx context.Context, c *client.Client, in *client.TemplateCreate, tell io.Writer) error {
	if len(s.list) == 0 {
		return nil
	}
	all := append([]client.TemplateStep{}, deref(in.Steps)...)
	for _, step := range s.list {
		overrule(in, step.TemplateStep)
		if step.from != "" {
			if err := step.upload(ctx, c, tell); err != nil {
				return err
			}
		}
		all = append(all, step.TemplateStep)
	}
	in.Steps = &all
	return nil
}

// overrule changes what lies above the steps where a file has it: flags come on top.
func overrule(in *client.TemplateCreate, step client.TemplateStep) {
	if in.User != nil && step.User != nil {
		in.User = step.User
	}
	if in.Workdir != nil && step.Workdir != nil {
		in.Workdir = step.Workdir
	}
	if in.Env == nil || step.Env == nil {
		return
	}
	for name, value := range *step.Env {
		if _, there := (*in.Env)[name]; there {
			(*in.Env)[name] = value
		}
	}
}

// upload sends what the step copies, and makes a step of it. A directory's contents are copied, as COPY does it.
func (s *templateStep) upload(ctx context.Context, c *client.Client, tell io.Writer) error {
	info, err := os.Stat(s.from)
	if err != nil {
		return err
	}
	write, to := func(w io.Writer) error { return pack(s.from, w) }, path.Clean(s.to)
	if !info.IsDir() {
		dir, name := path.Split(s.to)
		if name == "" {
			name = path.Base(s.from)
		}
		to, write = path.Clean(dir), func(w io.Writer) error { return packFile(s.from, name, w) }
	}
	id, err := send(ctx, c, s.from, tell, write)
	if err != nil {
		return err
	}
	s.Copy = &struct {
		Owner  *string `json:"owner,omitempty"`
		To     string  `json:"to"`
		Upload string  `json:"upload"`
	}{given(s.owner), to, id}
	return nil
}

// packFile writes an archive with one file, which has another name in it.
func packFile(file, name string, to io.Writer) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a directory", file)
	}
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	h.Name = name
	w := tar.NewWriter(to)
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.CopyN(w, f, h.Size); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return w.Close()
}

// send uploads what is written, as it's written, and returns the upload's id. It's written twice: the sum that is made first lets what was
// sent before count as the same, and tells how much there is.
func send(ctx context.Context, c *client.Client, what string, tell io.Writer, write func(io.Writer) error) (id string, err error) {
	p := startProgress(tell, "reading "+what)
	defer p.end()
	sum := sha256.New()
	length, err := p.countWritten(ctx, sum, write)
	if isLocal(err) { // it names the file
		return "", err
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	p.say("uploading " + what)
	r, w := io.Pipe()
	go func() { w.CloseWithError(write(w)) }()
	defer r.Close()
	if id, err = c.Upload(ctx, p.count(r, length), client.WithSHA256(hex.EncodeToString(sum.Sum(nil)))); err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return id, nil
}
