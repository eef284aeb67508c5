package record

import "fmt"

// Build is what a template is made of. It's kept as JSON, and its hash in part decides whether two templates are the same: a field that is
// added must be left out when it's empty.
type Build struct {
	Source       Source   `json:"source"`
	Steps        []Step   `json:"steps,omitempty"`
	StartCommand string   `json:"start_command,omitempty"` // runs in the snapshot
	ReadyCheck   string   `json:"ready_check,omitempty"`   // must exit with 0 before the snapshot is taken
	Defaults     Defaults `json:"defaults,omitzero"`       // above what the source says
	NoCache      bool     `json:"no_cache,omitempty"`
	HadAuth      bool     `json:"had_auth,omitempty"` // whether it began with a RegistryAuth; not part of the hash
}

// Plain reports whether it's a recipe and nothing more.
func (b Build) Plain() bool {
	d := b.Defaults
	return b.Source.Recipe != "" && len(b.Steps) == 0 && b.StartCommand == "" && b.ReadyCheck == "" && len(d.Env) == 0 && d.User == "" && d.Workdir == ""
}

// BuildOrder is what a node needs to know to build a template.
type BuildOrder struct {
	Template string // tpl_…
	Project  string
	Shape    Shape
	Build    Build
	Auth     *RegistryAuth // for the registry of its image; nil: none
}

// RegistryAuth is a login for a registry: a name with its password, or a token.
type RegistryAuth struct {
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	Token    string `json:"token,omitempty"`
}

// String keeps it out of logs.
func (RegistryAuth) String() string { return "(a registry's login)" }

// GoString keeps it out of logs, too.
func (a RegistryAuth) GoString() string { return a.String() }

// Source is what a template's file system is made of. Exactly one of its fields is set.
type Source struct {
	Recipe   string  `json:"recipe,omitempty"`
	Debian   *Debian `json:"debian,omitempty"`
	Image    string  `json:"image,omitempty"`    // an OCI reference
	Archive  string  `json:"archive,omitempty"`  // an upload: OCI layout or docker save
	Rootfs   string  `json:"rootfs,omitempty"`   // an upload: tar
	Template string  `json:"template,omitempty"` // tpl_…
}

// Debian is a suite of Debian with packages beyond its minimum.
type Debian struct {
	Suite    string   `json:"suite"`
	Packages []string `json:"packages,omitempty"`
}

// Step is one layer above the source. Exactly one of its fields is set.
type Step struct {
	Run  string    `json:"run,omitempty"`
	Copy *Copy     `json:"copy,omitempty"`
	Set  *Defaults `json:"set,omitempty"`
}

// Copy unpacks an upload, a tar archive, into a directory.
type Copy struct {
	Upload string `json:"upload"`
	To     string `json:"to"`
	Owner  string `json:"owner,omitempty"`
}

// Uploads are the ids of the uploads that a build uses, each once, in their order of use.
func (b Build) Uploads() []string {
	var out []string
	seen := map[string]bool{"": true}
	add := func(id string) {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	add(b.Source.Archive)
	add(b.Source.Rootfs)
	for _, s := range b.Steps {
		if s.Copy != nil {
			add(s.Copy.Upload)
		}
	}
	return out
}

// UploadField is where a request for the build names an upload first.
func (b Build) UploadField(id string) string {
	switch id {
	case b.Source.Archive:
		return "archive"
	case b.Source.Rootfs:
		return "rootfs"
	}
	for i, s := range b.Steps {
		if s.Copy != nil && s.Copy.Upload == id {
			return fmt.Sprintf("steps[%d].copy.upload", i)
		}
	}
	return "steps"
}
