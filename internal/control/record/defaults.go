package record

import "maps"

// Defaults are what a template sets for its sessions.
type Defaults struct {
	Env     map[string]string `json:"env,omitempty"`
	User    string            `json:"user,omitempty"`
	Workdir string            `json:"workdir,omitempty"`
}

// IsZero reports whether nothing is set.
func (d Defaults) IsZero() bool { return len(d.Env) == 0 && d.User == "" && d.Workdir == "" }

// Fill returns a session's spec with what it leaves open: its environment lies above the sandbox's, and that above the template's; user
// and directory are the template's if the session names none. The spec that is given isn't changed.
func (d Defaults) Fill(s Spec, sandbox map[string]string) Spec {
	env := make(map[string]string, len(d.Env)+len(sandbox)+len(s.Env))
	maps.Copy(env, d.Env)
	maps.Copy(env, sandbox)
	maps.Copy(env, s.Env)
	s.Env = env
	if s.User == "" {
		s.User = d.User
	}
	if s.Cwd == "" {
		s.Cwd = d.Workdir
	}
	return s
}
