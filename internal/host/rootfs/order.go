package rootfs

import (
	"fmt"
	"regexp"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/image"
)

// Order says what file system to make. It has exactly one source.
type Order struct {
	Dir   string // gets disk.img
	Label string // of the file system

	Recipe  string // by name
	Debian  Debian
	Image   string // an OCI reference
	Archive string // a file with an OCI layout or what `docker save` wrote
	Rootfs  string // a file with a tar archive

	DiskBytes int64 // of the file system; 0: what the files need and a half more
	MoreBytes int64 // beside that, if DiskBytes is 0

	Login *image.Login `json:"-"` // for the image's registry; the helper gets it apart from the order, which its command line shows
	login image.Login  // in the helper

	LoginFollows bool // on descriptor loginFD

	Layers   string   // a directory that keeps layers from registries
	Insecure []string // registries that needn't speak TLS
	Allowed  []string // registries that needn't be on the public internet
}

// Debian is a Debian with packages.
type Debian struct {
	Suite    string
	Packages []string
}

// Result is what a helper has made, or found out.
type Result struct {
	Reference string        `json:"reference,omitempty"` // of an image from a registry, with its digest
	Config    *image.Config `json:"config,omitempty"`    // of an image
	DiskBytes int64         `json:"disk_bytes,omitempty"`
}

// Limits of a Debian.
const maxPackages = 512

var (
	suiteRE   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	packageRE = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]{0,127}$`)
)

// Check refuses what can't be a Debian.
func (d Debian) Check() error {
	if !suiteRE.MatchString(d.Suite) {
		return space.FieldErrorf("debian.suite", "%q is no suite", space.Clip(d.Suite))
	}
	if len(d.Packages) > maxPackages {
		return space.FieldErrorf("debian.packages", "%d packages, the limit is %d", len(d.Packages), maxPackages)
	}
	for _, p := range d.Packages {
		if !packageRE.MatchString(p) {
			return space.FieldErrorf("debian.packages", "%q is no package", space.Clip(p))
		}
	}
	return nil
}

// foreign tells whether the source was made by somebody else: its content is taken apart where it can do no harm.
func (o Order) foreign() bool { return o.Image != "" || o.Archive != "" || o.Rootfs != "" }

// String names the source.
func (o Order) String() string {
	switch {
	case o.Recipe != "":
		return o.Recipe
	case o.Debian.Suite != "":
		return "Debian " + o.Debian.Suite
	case o.Image != "":
		return o.Image
	case o.Archive != "":
		return "the image archive"
	case o.Rootfs != "":
		return "the root file system"
	}
	return fmt.Sprintf("nothing for %s", o.Dir)
}

// field is the request's field that names the source.
func (o Order) field() string {
	switch {
	case o.Image != "":
		return "image"
	case o.Archive != "":
		return "archive"
	case o.Rootfs != "":
		return "rootfs"
	case o.Debian.Suite != "":
		return "debian"
	}
	return "recipe"
}
