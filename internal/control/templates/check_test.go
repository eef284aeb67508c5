package templates

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

func p[T any](v T) *T { return &v }

// fromImage is a request that is right, with a change.
func fromImage(change func(*Create)) Create {
	c := Create{Name: p("web"), Image: p("alpine:3")}
	if change != nil {
		change(&c)
	}
	return c
}

func withStep(s Step) Create {
	return fromImage(func(c *Create) { c.Steps = []Step{{Run: p("true")}, s} })
}

func TestCheckAccepts(t *testing.T) {
	upload := space.NewID(space.PrefixUpload)
	for name, c := range map[string]Create{
		"recipe":           {Recipe: p("base")},
		"recipe by a name": {Recipe: p("mini"), Name: p("small")},
		"debian":           {Name: p("web"), Debian: &record.Debian{Suite: "bookworm", Packages: []string{"g++", "libc6-dev", "python3.11"}}},
		"image":            fromImage(nil),
		"image by digest":  fromImage(func(c *Create) { c.Image = p("registry.example:5000/a/b@sha256:" + strings.Repeat("0", 64)) }),
		"archive":          {Name: p("web"), Archive: &upload},
		"rootfs":           {Name: p("web"), Rootfs: &upload},
		"template":         {Name: p("web"), Template: p("base:v1")},
		"everything": fromImage(func(c *Create) {
			c.Tags, c.NoCache = []string{"v1", "2026.11"}, true
			c.Steps = []Step{
				{Run: p(strings.Repeat("a", 128<<10-1))}, {Copy: &record.Copy{Upload: upload, To: "/srv", Owner: "www-data:1000"}},
				{Env: map[string]string{"A": "1"}}, {Workdir: p("/srv")}, {User: p("www-data")},
			}
			c.StartCommand, c.ReadyCheck, c.Env, c.User, c.Workdir = "serve &", "curl localhost", map[string]string{"B": ""}, "1000", "/"
			c.VCPUs, c.MemoryMiB, c.DiskMiB = p(32), p(256<<10), p(1<<20)
		}),
	} {
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckNamesTheField has one mistake each.
func TestCheckNamesTheField(t *testing.T) {
	upload := space.NewID(space.PrefixUpload)
	many := map[string]string{}
	for i := range 257 {
		many[fmt.Sprintf("E%d", i)] = ""
	}
	for _, x := range []struct {
		name  string
		c     Create
		field string
	}{
		{"no source", Create{Name: p("web")}, "recipe"},
		{"two sources", Create{Recipe: p("base"), Image: p("alpine")}, "image"},
		{"two others", Create{Name: p("web"), Rootfs: &upload, Template: p("base")}, "template"},
		{"unknown recipe", Create{Recipe: p("maxi")}, "recipe"},
		{"no name", Create{Image: p("alpine")}, "name"},
		{"empty name", fromImage(func(c *Create) { c.Name = p("") }), "name"},
		{"name like an id", fromImage(func(c *Create) { c.Name = p("tpl_x") }), "name"},
		{"name with a colon", fromImage(func(c *Create) { c.Name = p("web:v1") }), "name"},
		{"long name", fromImage(func(c *Create) { c.Name = p(strings.Repeat("a", 64)) }), "name"},
		{"name in capitals", fromImage(func(c *Create) { c.Name = p("Web") }), "name"},
		{"many tags", fromImage(func(c *Create) { c.Tags = make([]string, 17) }), "tags"},
		{"bad tag", fromImage(func(c *Create) { c.Tags = []string{"v1", "V2"} }), "tags[1]"},
		{"empty suite", Create{Name: p("web"), Debian: &record.Debian{}}, "debian.suite"},
		{"suite with a path", Create{Name: p("web"), Debian: &record.Debian{Suite: "../x"}}, "debian.suite"},
		{"package like an option", Create{Name: p("web"), Debian: &record.Debian{Suite: "bookworm", Packages: []string{"git", "-o=x"}}}, "debian.packages[1]"},
		{"many packages", Create{Name: p("web"), Debian: &record.Debian{Suite: "bookworm", Packages: make([]string, 513)}}, "debian.packages"},
		{"empty image", fromImage(func(c *Create) { c.Image = p("") }), "image"},
		{"image in capitals", fromImage(func(c *Create) { c.Image = p("Alpine") }), "image"},
		{"image with a blank", fromImage(func(c *Create) { c.Image = p("alpine:3 x") }), "image"},
		{"image like an option", fromImage(func(c *Create) { c.Image = p("--config=/etc") }), "image"},
		{"image with a short digest", fromImage(func(c *Create) { c.Image = p("alpine@sha256:00") }), "image"},
		{"long image", fromImage(func(c *Create) { c.Image = p(strings.Repeat("a/", 256) + "b") }), "image"},
		{"image with a NUL", fromImage(func(c *Create) { c.Image = p("a\x00b") }), "image"},
		{"archive that isn't an upload", Create{Name: p("web"), Archive: p("/etc/passwd")}, "archive"},
		{"rootfs that isn't an upload", Create{Name: p("web"), Rootfs: p("")}, "rootfs"},
		{"many steps", fromImage(func(c *Create) { c.Steps = make([]Step, 257) }), "steps"},
		{"empty step", withStep(Step{}), "steps[1]"},
		{"two kinds", withStep(Step{Run: p("a"), User: p("b")}), "steps[1]"},
		{"empty run", withStep(Step{Run: p("")}), "steps[1].run"},
		{"long run", withStep(Step{Run: p(strings.Repeat("a", 128<<10))}), "steps[1].run"},
		{"run with a NUL", withStep(Step{Run: p("a\x00b")}), "steps[1].run"},
		{"copy of nothing", withStep(Step{Copy: &record.Copy{To: "/"}}), "steps[1].copy.upload"},
		{"copy to nowhere", withStep(Step{Copy: &record.Copy{Upload: upload}}), "steps[1].copy.to"},
		{"copy to a relative path", withStep(Step{Copy: &record.Copy{Upload: upload, To: "srv"}}), "steps[1].copy.to"},
		{"copy for two groups", withStep(Step{Copy: &record.Copy{Upload: upload, To: "/srv", Owner: "a:b:c"}}), "steps[1].copy.owner"},
		{"empty env", withStep(Step{Env: map[string]string{}}), "steps[1].env"},
		{"bad env", withStep(Step{Env: map[string]string{"A=B": ""}}), "steps[1].env"},
		{"empty workdir", withStep(Step{Workdir: p("")}), "steps[1].workdir"},
		{"relative workdir", withStep(Step{Workdir: p("srv")}), "steps[1].workdir"},
		{"bad user", withStep(Step{User: p("a b")}), "steps[1].user"},
		{"long start command", fromImage(func(c *Create) { c.StartCommand = strings.Repeat("a", 128<<10) }), "start_command"},
		{"ready check with a NUL", fromImage(func(c *Create) { c.ReadyCheck = "\x00" }), "ready_check"},
		{"many variables", fromImage(func(c *Create) { c.Env = many }), "env"},
		{"user of the template", fromImage(func(c *Create) { c.User = "a:b:c" }), "user"},
		{"workdir of the template", fromImage(func(c *Create) { c.Workdir = "srv" }), "workdir"},
		{"no vCPU", fromImage(func(c *Create) { c.VCPUs = p(0) }), "vcpus"},
		{"little memory", fromImage(func(c *Create) { c.MemoryMiB = p(63) }), "memory_mb"},
		{"large disk", fromImage(func(c *Create) { c.DiskMiB = p(1<<20 + 1) }), "disk_mb"},
	} {
		err := x.c.Check()
		var e *space.Error
		if !errors.As(err, &e) || e.Code != space.CodeInvalid || e.Field != x.field {
			t.Errorf("%s: %v, want field %s", x.name, err, x.field)
		}
	}
}

func TestCheckSize(t *testing.T) {
	var b record.Build
	for range 9 {
		b.Steps = append(b.Steps, record.Step{Run: strings.Repeat("a", 120<<10)})
	}
	var e *space.Error
	if err := checkSize(b); !errors.As(err, &e) || e.Field != "steps" {
		t.Errorf("%v", err)
	}
	b.Steps = b.Steps[:8]
	if err := checkSize(b); err != nil {
		t.Error(err)
	}
}

func TestShape(t *testing.T) {
	base := &record.Template{Name: "base", Shape: record.Shape{VCPUs: 2, MemoryBytes: 1024 * record.MiB, DiskBytes: 8192 * record.MiB}}
	for name, x := range map[string]struct {
		c    Create
		base *record.Template
		want record.Shape
	}{
		"recipe":                    {c: Create{Recipe: p("mini")}, want: record.Shape{VCPUs: 1, MemoryBytes: 128 * record.MiB, DiskBytes: 64 * record.MiB}},
		"image":                     {c: fromImage(nil), want: record.Shape{VCPUs: 1, MemoryBytes: 512 * record.MiB}},
		"template":                  {c: Create{Template: p("base")}, base: base, want: base.Shape},
		"template with more memory": {c: Create{Template: p("base"), MemoryMiB: p(2048)}, base: base, want: record.Shape{VCPUs: 2, MemoryBytes: 2048 * record.MiB, DiskBytes: 8192 * record.MiB}},
		"image with a size":         {c: Create{Image: p("a"), VCPUs: p(4), DiskMiB: p(100)}, want: record.Shape{VCPUs: 4, MemoryBytes: 512 * record.MiB, DiskBytes: 100 * record.MiB}},
	} {
		if got, err := x.c.shape(x.base); err != nil || got != x.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, x.want)
		}
	}
	var e *space.Error
	if _, err := (Create{Template: p("base"), DiskMiB: p(4096)}).shape(base); !errors.As(err, &e) || e.Field != "disk_mb" {
		t.Errorf("a disk smaller than the base's: %v", err)
	}
}

func TestRegistryAuthIsChecked(t *testing.T) {
	image, recipe, name := "registry.example/a:1", "mini", "a"
	for what, x := range map[string]struct {
		auth  record.RegistryAuth
		image bool
		field string
	}{
		"a password":          {record.RegistryAuth{Username: "robot", Password: "canary"}, true, ""},
		"a token":             {record.RegistryAuth{Token: "canary"}, true, ""},
		"without an image":    {record.RegistryAuth{Token: "canary"}, false, "registry_auth"},
		"nothing":             {record.RegistryAuth{}, true, "registry_auth"},
		"both":                {record.RegistryAuth{Username: "robot", Password: "canary", Token: "canary"}, true, "registry_auth"},
		"a name alone":        {record.RegistryAuth{Username: "canary"}, true, "registry_auth"},
		"a long password":     {record.RegistryAuth{Username: "robot", Password: strings.Repeat("canary", 2000)}, true, "registry_auth.password"},
		"a token with a line": {record.RegistryAuth{Token: "canary\r\nHost: x"}, true, "registry_auth.token"},
	} {
		c := Create{Name: &name, Image: &image, RegistryAuth: &x.auth}
		if !x.image {
			c.Image, c.Recipe = nil, &recipe
		}
		var e *space.Error
		err := c.Check()
		if x.field == "" && err == nil {
			continue
		}
		if !errors.As(err, &e) || e.Field != x.field || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %s", what, err, x.field)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", record.RegistryAuth{Token: "canary"}, &record.RegistryAuth{Token: "canary"}, record.RegistryAuth{Token: "canary"}); strings.Contains(text, "canary") {
		t.Errorf("it's printed: %s", text)
	}
}
