package templates

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/google/go-containerregistry/pkg/name"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/program"
	"github.com/space-platform/space/internal/control/record"
)

// The limits of a build, as openapi.yaml states them.
const (
	maxImage = 512

	maxAuthName   = 255
	maxAuthSecret = 8192

	maxPackages  = 512
	maxSteps     = 256
	maxVCPUs     = 32
	maxMemoryMiB = 256 << 10
	minDiskMiB   = 64
	maxDiskMiB   = 1 << 20
	// maxBuild bounds all that a template is made of, as it is kept: its commands, its steps, its environment.
	maxBuild = 1 << 20
)

var (
	suiteRE   = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
	packageRE = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]{0,127}$`)
)

// Check refuses a request that is wrong whatever the state of the platform; the error names the field and its limit.
func (c Create) Check() error {
	for _, check := range []func() error{c.checkSource, c.checkAuth, c.checkNames, c.checkSteps, c.checkProgram, c.checkShape, c.checkLifecycle} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c Create) checkLifecycle() error {
	_, err := c.lifecycle()
	return err
}

func (c Create) checkNames() error {
	switch {
	case c.Name != nil:
		if err := checkName("name", *c.Name); err != nil {
			return err
		}
	case c.Recipe == nil:
		return space.FieldErrorf("name", "is required: only a recipe has a name of its own")
	}
	if n := len(c.Tags); n > maxTags {
		return space.FieldErrorf("tags", "has %d items: at most %d are allowed", n, maxTags)
	}
	for i, tag := range c.Tags {
		if err := checkTag(fmt.Sprintf("tags[%d]", i), tag); err != nil {
			return err
		}
	}
	return nil
}

// checkSource counts the sources, and checks the one that is given.
func (c Create) checkSource() error {
	var given []string
	var check func() error
	add := func(field string, is bool, one func() error) {
		if is {
			given, check = append(given, field), one
		}
	}
	add("recipe", c.Recipe != nil, func() error { return checkRecipe(*c.Recipe) })
	add("debian", c.Debian != nil, func() error { return checkDebian(*c.Debian) })
	add("image", c.Image != nil, func() error { return checkImage(*c.Image) })
	add("archive", c.Archive != nil, func() error { return checkUpload("archive", *c.Archive) })
	add("rootfs", c.Rootfs != nil, func() error { return checkUpload("rootfs", *c.Rootfs) })
	add("template", c.Template != nil, func() error { return nil }) // what isn't a reference isn't found
	switch len(given) {
	case 0:
		return space.FieldErrorf("recipe", "no source is given: exactly one of recipe, debian, image, archive, rootfs and template is needed")
	case 1:
		return check()
	default:
		return space.FieldErrorf(given[1], "%s and %s are both given: exactly one source is allowed", given[0], given[1])
	}
}

// checkAuth checks a login, of which no error repeats anything.
func (c Create) checkAuth() error {
	a := c.RegistryAuth
	if a == nil {
		return nil
	}
	switch {
	case c.Image == nil:
		return space.FieldErrorf("registry_auth", "is of use with image only")
	case (a.Token != "") == (a.Username != "" || a.Password != ""):
		return space.FieldErrorf("registry_auth", "either token, or username with password, is needed")
	case a.Token == "" && (a.Username == "" || a.Password == ""):
		return space.FieldErrorf("registry_auth", "username and password are both needed")
	}
	for _, x := range []struct {
		field, value string
		most         int
	}{{"username", a.Username, maxAuthName}, {"password", a.Password, maxAuthSecret}, {"token", a.Token, maxAuthSecret}} {
		if len(x.value) > x.most {
			return space.FieldErrorf("registry_auth."+x.field, "has %d bytes: at most %d are allowed", len(x.value), x.most)
		}
		if strings.ContainsFunc(x.value, unicode.IsControl) {
			return space.FieldErrorf("registry_auth."+x.field, "has a control character")
		}
	}
	return nil
}

func checkRecipe(s string) error {
	if _, ok := recipes[s]; !ok {
		return space.FieldErrorf("recipe", "%q is not a recipe: base or mini", space.Clip(s))
	}
	return nil
}

func checkDebian(d record.Debian) error {
	if !suiteRE.MatchString(d.Suite) {
		return space.FieldErrorf("debian.suite", "%q is not a suite: 1 to 32 of a-z, 0-9 and '-', for example bookworm", space.Clip(d.Suite))
	}
	if n := len(d.Packages); n > maxPackages {
		return space.FieldErrorf("debian.packages", "has %d items: at most %d are allowed", n, maxPackages)
	}
	for i, p := range d.Packages {
		if !packageRE.MatchString(p) {
			return space.FieldErrorf(fmt.Sprintf("debian.packages[%d]", i), "%q is not a package's name", space.Clip(p))
		}
	}
	return nil
}

func checkImage(s string) error {
	if len(s) > maxImage {
		return space.FieldErrorf("image", "has %d characters: at most %d are allowed", len(s), maxImage)
	}
	if _, err := name.ParseReference(s); err != nil {
		return space.FieldErrorf("image", "%q is not an image reference, for example registry.example/app:1", space.Clip(s))
	}
	return nil
}

func checkUpload(field, id string) error {
	if space.CheckID(space.PrefixUpload, id) != nil {
		return space.FieldErrorf(field, "%q is not an upload: POST /v1/uploads makes one", space.Clip(id))
	}
	return nil
}

func (c Create) checkProgram() error {
	if err := program.CheckText("start_command", c.StartCommand, program.MaxText); err != nil {
		return err
	}
	if err := program.CheckText("ready_check", c.ReadyCheck, program.MaxText); err != nil {
		return err
	}
	if err := program.CheckEnv("env", c.Env); err != nil {
		return err
	}
	if err := space.CheckUser("user", c.User); err != nil {
		return err
	}
	return program.CheckDirectory("workdir", c.Workdir)
}

func (c Create) checkShape() error {
	for _, f := range []struct {
		name        string
		n           *int
		least, most int
		unit        string
	}{
		{"vcpus", c.VCPUs, 1, maxVCPUs, ""},
		{"memory_mb", c.MemoryMiB, space.MinMemoryMiB, maxMemoryMiB, " MiB"},
		{"disk_mb", c.DiskMiB, minDiskMiB, maxDiskMiB, " MiB"},
	} {
		if f.n != nil && (*f.n < f.least || *f.n > f.most) {
			return space.FieldErrorf(f.name, "is %d%s: it must be %d to %d%s", *f.n, f.unit, f.least, f.most, f.unit)
		}
	}
	return nil
}

// checkSize bounds what a template is made of as a whole.
func checkSize(b record.Build) error {
	out, err := json.Marshal(b)
	if err == nil && len(out) > maxBuild {
		return space.FieldErrorf("steps", "with the rest of the build they have %d bytes: at most %d (1 MiB) are allowed", len(out), maxBuild)
	}
	return err
}
