package template

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/image"
	"github.com/space-platform/space/internal/host/rootfs"
)

// Order says what a template is made of. It has exactly one source.
type Order struct {
	Template string `json:"template"`          // tpl_…
	Project  string `json:"project,omitempty"` // whose it is

	Recipe  string         `json:"recipe,omitempty"` // base, mini
	Debian  *rootfs.Debian `json:"debian,omitempty"`
	Image   string         `json:"image,omitempty"`   // an OCI reference
	Archive string         `json:"archive,omitempty"` // an upload with an OCI layout or what `docker save` wrote
	Rootfs  string         `json:"rootfs,omitempty"`  // an upload with a tar archive
	Base    string         `json:"base,omitempty"`    // a template of this node

	Steps    []Step      `json:"steps,omitempty"`
	Start    string      `json:"start,omitempty"` // a shell command that is left running
	Ready    string      `json:"ready,omitempty"` // a shell command that must succeed before the snapshot
	Defaults Defaults    `json:"defaults"`        // above what the source says
	Size     rootfs.Size `json:"size"`            // 0: what the source has
	NoCache  bool        `json:"no_cache,omitempty"`

	Login    *image.Login `json:"-"`                   // for the image's registry, while it's being built; it's never on file
	HadLogin bool         `json:"had_login,omitempty"` // whether there was one when it was ordered first
}

// Step is one layer above the source. One of its fields is set.
type Step struct {
	Run  string    `json:"run,omitempty"` // by /bin/sh -c
	Copy *Copy     `json:"copy,omitempty"`
	Set  *Defaults `json:"set,omitempty"`
}

// Copy unpacks an upload, a tar archive.
type Copy struct {
	Upload string `json:"upload"`
	To     string `json:"to"`              // a directory, made if need be
	Owner  string `json:"owner,omitempty"` // USER or USER:GROUP of what's made and what's in the archive; empty: root
}

// Defaults are what sessions have that don't say otherwise.
type Defaults struct {
	Env     map[string]string `json:"env,omitempty"`
	User    string            `json:"user,omitempty"`
	Workdir string            `json:"workdir,omitempty"`
}

// with returns the defaults with others above them.
func (d Defaults) with(o Defaults) Defaults {
	env := maps.Clone(d.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, o.Env)
	d.Env = env
	if o.User != "" {
		d.User = o.User
	}
	if o.Workdir != "" {
		d.Workdir = o.Workdir
	}
	return d
}

// defaultsOf are what an image says.
func defaultsOf(c *image.Config) Defaults {
	if c == nil {
		return Defaults{}
	}
	return Defaults{Env: c.Env, User: c.User, Workdir: c.WorkingDir}
}

// Limits of an order. The control plane's own are narrower where they differ.
const (
	maxSteps   = 256
	maxCommand = 128 << 10 // bytes of one
	maxEnv     = 256 << 10 // bytes of a step's environment
	maxPath    = 4096
)

// Check refuses an order that nothing can be made of.
func (o Order) Check() error {
	sources := 0
	for _, is := range []bool{o.Recipe != "", o.Debian != nil, o.Image != "", o.Archive != "", o.Rootfs != "", o.Base != ""} {
		if is {
			sources++
		}
	}
	switch {
	case sources != 1:
		return space.FieldErrorf("source", "%d sources are named; it takes one", sources)
	case len(o.Steps) > maxSteps:
		return space.FieldErrorf("steps", "%d steps, the limit is %d", len(o.Steps), maxSteps)
	case len(o.Start) > maxCommand:
		return space.FieldErrorf("start_command", "%d bytes, the limit is %d", len(o.Start), maxCommand)
	case len(o.Ready) > maxCommand:
		return space.FieldErrorf("ready_check", "%d bytes, the limit is %d", len(o.Ready), maxCommand)
	}
	if err := o.checkSource(); err != nil {
		return err
	}
	for n, s := range o.Steps {
		if err := s.check(); err != nil {
			return space.FieldErrorf(fmt.Sprintf("steps[%d]", n), "%s", err)
		}
	}
	return o.Defaults.check("defaults")
}

func (o Order) checkSource() error {
	switch {
	case o.Debian != nil:
		return o.Debian.Check()
	case o.Image != "":
		if err := image.CheckReference(o.Image); err != nil {
			return space.FieldErrorf("image", "%s", err)
		}
	}
	return nil
}

func (s Step) check() error {
	switch {
	case s.Run != "" && s.Copy == nil && s.Set == nil:
		if len(s.Run) > maxCommand {
			return fmt.Errorf("run has %d bytes, the limit is %d", len(s.Run), maxCommand)
		}
	case s.Copy != nil && s.Run == "" && s.Set == nil:
		if !path.IsAbs(s.Copy.To) || len(s.Copy.To) > maxPath {
			return fmt.Errorf("copy.to %q is no absolute path", space.Clip(s.Copy.To))
		}
	case s.Set != nil && s.Run == "" && s.Copy == nil:
		return s.Set.check("set")
	default:
		return fmt.Errorf("a step does one thing")
	}
	return nil
}

func (d Defaults) check(field string) error {
	size := 0
	for k, v := range d.Env {
		size += len(k) + len(v) + 2
	}
	if size > maxEnv || len(d.Workdir) > maxPath {
		return space.FieldErrorf(field, "%d bytes of environment and %d of the directory, the limits are %d and %d", size, len(d.Workdir), maxEnv, maxPath)
	}
	return nil
}

// field is the request's field that names the source.
func (o Order) field() string {
	switch {
	case o.Debian != nil:
		return "debian"
	case o.Image != "":
		return "image"
	case o.Archive != "":
		return "archive"
	case o.Rootfs != "":
		return "rootfs"
	case o.Base != "":
		return "template"
	}
	return "recipe"
}

// chain is the key of what comes after another layer.
func chain(before string, parts ...any) string {
	b, err := json.Marshal(parts)
	if err != nil { // it holds strings and numbers
		b = fmt.Append(nil, parts...)
	}
	sum := sha256.Sum256(append([]byte(before+"\n"), b...))
	return hex.EncodeToString(sum[:])
}
