package api

import (
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/templates"
)

// readTemplate reads the body that builds a template.
func readTemplate(b *gen.TemplateCreate) templates.Create {
	out := templates.Create{
		Name: b.Name, Tags: given(b.Tags), Image: b.Image, Archive: b.Archive, Rootfs: b.Rootfs, Template: b.Template,
		StartCommand: given(b.StartCommand), ReadyCheck: given(b.ReadyCheck), Env: given(b.Env), User: given(b.User), Workdir: given(b.Workdir),
		VCPUs: b.Vcpus, MemoryMiB: b.MemoryMb, DiskMiB: b.DiskMb, NoCache: given(b.NoCache),
	}
	if a := b.RegistryAuth; a != nil {
		out.RegistryAuth = &record.RegistryAuth{Username: given(a.Username), Password: given(a.Password), Token: given(a.Token)}
	}
	out.Lifecycle = readLifecycle(b.Lifecycle)
	if b.Recipe != nil {
		recipe := string(*b.Recipe)
		out.Recipe = &recipe
	}
	if b.Debian != nil {
		out.Debian = &record.Debian{Suite: b.Debian.Suite, Packages: given(b.Debian.Packages)}
	}
	for _, s := range given(b.Steps) {
		out.Steps = append(out.Steps, readStep(s))
	}
	return out
}

func readStep(s gen.TemplateStep) templates.Step {
	out := templates.Step{Run: s.Run, Workdir: s.Workdir, User: s.User}
	if s.Env != nil {
		out.Env = *s.Env
	}
	if s.Copy != nil {
		out.Copy = &record.Copy{Upload: s.Copy.Upload, To: s.Copy.To, Owner: given(s.Copy.Owner)}
	}
	return out
}

// given is what an optional member holds; the zero value if it's absent.
func given[T any](v *T) T {
	if v == nil {
		var zero T
		return zero
	}
	return *v
}
