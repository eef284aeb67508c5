package record

// Defaults are what a template sets for its sessions.
type Defaults struct {
	Env     map[string]string `json:"env,omitempty"`
	User    string            `json:"user,omitempty"`
	Workdir string            `json:"workdir,omitempty"`
}

// IsZero reports whether nothing is set.
func (d Defaults) IsZero() bool { return len(d.Env) == 0 && d.User == "" && d.Workdir == "" }
