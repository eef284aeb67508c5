package template

import (
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// Start returns what a machine has to run that boots from a template's disk, or from a disk that once was a clone of it: the template's snapshot
// would have it running. nil: nothing, or the template is gone.
func (s *Store) Start(template string) *sessionv1.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.templates[template]
	if !ok || e.base == nil || e.order.Start == "" {
		return nil
	}
	return shellSpec(e.base.m.Defaults, e.order.Start)
}

// Probe is a command that changes nothing, for a machine that is to be warm: a shell that ends. Whether the template has a shell or not, the
// way to there is warm then.
func (s *Store) Probe(template string) *sessionv1.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	var d Defaults
	if e, ok := s.templates[template]; ok && e.base != nil {
		d = e.base.m.Defaults
	}
	return shellSpec(d, ":")
}

// shellSpec is a shell command with what sessions have that don't say otherwise.
func shellSpec(d Defaults, command string) *sessionv1.Spec {
	return &sessionv1.Spec{Argv: []string{shell, "-c", command}, User: d.User, Cwd: d.Workdir, Env: d.Env}
}
